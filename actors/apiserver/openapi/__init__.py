"""OpenAPI v3 of what is served: for kubectl's explanations and patches, and for clients that check before they send."""
