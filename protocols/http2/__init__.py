"""HTTP/2 and gRPC framing, as much of it as a client needs: no thread, no wake-up but the socket's."""
