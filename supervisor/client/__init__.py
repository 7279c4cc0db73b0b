"""Talk to a running plane, and print what it answers."""
