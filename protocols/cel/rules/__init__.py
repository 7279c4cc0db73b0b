"""Rules of custom resources, on the worker's side: types, checks, and evaluation with values of those types."""
