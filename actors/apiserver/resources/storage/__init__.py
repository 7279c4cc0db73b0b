"""Kinds of storage: volumes, claims, storage classes, CSI objects."""
