"""Errors of the API as Status objects, and the causes inside a 422."""
