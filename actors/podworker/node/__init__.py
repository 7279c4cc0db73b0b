"""The Node object, its lease and its readiness."""
