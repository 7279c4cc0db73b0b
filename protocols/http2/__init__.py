"""HTTP/2 and gRPC framing, as much of it as the client of etcd needs: no thread, no wake-up but the socket's."""
