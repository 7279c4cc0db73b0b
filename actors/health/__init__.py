"""Publish the health of allocated devices as pod status entries and events (KEP-4680)."""
