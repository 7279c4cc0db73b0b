"""OpenAPI documents of the served kinds, which clients check, complete and explain objects by."""
