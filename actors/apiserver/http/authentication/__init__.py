"""Authentication: client certificates, bearer tokens, impersonation."""
