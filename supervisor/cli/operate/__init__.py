"""Commands that start, change and stop a plane, and write files for its users."""
