"""Tiny actors for the supervisor's own tests, and a plane made of them."""
