"""The list of steps of a write, above the rules that it applies."""
