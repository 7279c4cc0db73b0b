"""Vocabulary of the API: resources, targets, selections, request options."""
