"""Schemas of the built-in kinds: fields, types, list keys. Parsed at the first use."""
