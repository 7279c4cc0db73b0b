"""The multi-version state in memory, and the pure evaluation of requests on it."""
