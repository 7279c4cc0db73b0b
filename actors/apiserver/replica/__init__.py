"""The replica of one resource: its objects, the window of recent changes, and who waits for it."""
