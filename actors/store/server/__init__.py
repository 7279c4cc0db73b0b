"""The endpoints: gRPC on a socket and loopback, and the private endpoint of the plane."""
