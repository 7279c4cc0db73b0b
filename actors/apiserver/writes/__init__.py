"""Writes: check and complete a body, then store it in an optimistic loop."""
