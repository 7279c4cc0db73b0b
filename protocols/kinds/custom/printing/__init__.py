"""Columns of custom resources: a subset of JSONPath."""
