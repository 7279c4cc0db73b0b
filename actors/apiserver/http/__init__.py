"""The HTTP side: connections, authentication, fairness, routing, endpoints, audit."""
