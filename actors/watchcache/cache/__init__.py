"""Pure state of the watch cache: objects and windows of recent changes at store revisions."""
