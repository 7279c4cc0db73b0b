"""Explain why devices do not satisfy a pod's claims: counts by rule, with examples. Pure."""
