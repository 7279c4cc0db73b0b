"""Structural schemas: validation, defaults, pruning."""
