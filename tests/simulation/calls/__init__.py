"""gRPC between simulated processes: unix sockets by path, channels, calls, streams and servers, in virtual time."""
