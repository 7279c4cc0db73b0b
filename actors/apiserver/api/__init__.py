"""Vocabulary of the API: resources, stored objects, errors, metrics."""
