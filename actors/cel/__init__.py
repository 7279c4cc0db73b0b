"""Evaluate CEL expressions for one other process, where they can do no harm."""
