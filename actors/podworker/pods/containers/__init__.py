"""Sandboxes and containers: configuration, images, start and stop."""
