"""State of the console, without I/O: callers pass reports and the time."""
