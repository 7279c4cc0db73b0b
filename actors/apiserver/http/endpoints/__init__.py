"""Endpoints: verbs on resources, their subresources, and paths that are no resources."""
