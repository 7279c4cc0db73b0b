"""Persistent volumes, claims to them, storage classes and CSI's kinds."""
