"""Diagnosis of devices, claims, nodes and device plugins. Pure."""
