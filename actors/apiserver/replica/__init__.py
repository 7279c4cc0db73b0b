"""The replica of one resource: its objects, the window of recent changes, and waits for a revision."""
