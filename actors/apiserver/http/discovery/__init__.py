"""Discovery and OpenAPI v3."""
