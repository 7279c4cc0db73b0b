"""Admission: rules about a permitted write that depend on its author or on other objects."""
