"""Shapes of objects, made of the facts: types, defaults of absent fields, and the fields that a kind does not have."""
