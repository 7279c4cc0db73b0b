"""Custom resources: what a definition says, as the same rules that built-in kinds have."""
