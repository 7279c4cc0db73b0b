"""Validation shared by kinds: rules in tables, selectors, values."""
