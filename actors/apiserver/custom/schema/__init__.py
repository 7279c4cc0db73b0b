"""Structural schemas: validate, default and prune custom objects."""
