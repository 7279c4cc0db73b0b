"""Workloads: the kinds whose controllers make pods from a template."""
