"""Garbage collection along owner references."""
