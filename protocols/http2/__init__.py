"""HTTP/2 and gRPC framing, as much of it as clients of etcd and CRI need: no thread, no wake-up but the socket's."""
