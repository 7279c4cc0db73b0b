"""Devices for claims: what is free, what fits, the writes, the waits."""
