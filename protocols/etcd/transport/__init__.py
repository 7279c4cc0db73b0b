"""gRPC calls to one etcd member over connections of our own: HTTP/2, or frames over the store's private socket."""
