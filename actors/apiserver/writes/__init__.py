"""Writes: what becomes of a body before it is stored, and the optimistic loop that stores it."""
