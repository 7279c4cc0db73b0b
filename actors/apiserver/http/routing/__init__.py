"""The way of a request: route, fairness, handler, response."""
