"""Connections, request bodies and responses."""
