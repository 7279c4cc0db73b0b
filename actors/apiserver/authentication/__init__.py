"""Who sends a request: certificates, tokens, impersonation."""
