"""A pod's volumes: where they lie, what is in them, and how a directory's files change all at once."""
