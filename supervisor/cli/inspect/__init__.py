"""Commands that show a running plane and change nothing."""
