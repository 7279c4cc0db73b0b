"""Bind pods to nodes and allocate devices to their claims."""
