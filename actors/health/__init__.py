"""Turns device health into pod status entries and events (KEP-4680)."""
