"""Plugin registration through plugins_registry/."""
