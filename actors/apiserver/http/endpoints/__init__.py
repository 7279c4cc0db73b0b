"""Endpoints, one file for each group of verbs."""
