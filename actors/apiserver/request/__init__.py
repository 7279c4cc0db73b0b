"""From the socket to the question: TLS, path, query, body, and the gate every request passes."""
