"""Sandboxes, containers and images as this runtime knows them, and the CRI messages that describe them."""
