"""Sources of the console: supervisors, streams of the bus, metrics, the API and /proc."""
