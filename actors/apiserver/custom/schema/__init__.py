"""Structural schemas: what a custom object may hold, and what becomes of what it does not say."""
