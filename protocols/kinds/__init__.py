"""Kubernetes' kinds, described once for all who read, write, check or encode objects: their names and fields."""
