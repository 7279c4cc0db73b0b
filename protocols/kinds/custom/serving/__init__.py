"""A served version of a custom resource, as a kind like any other."""
