"""A request: its user, target, options and selectors, and the threads and traces of its work."""
