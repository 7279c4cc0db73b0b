"""SPDY/3.1 as far as port-forward needs it: frames and streams, without I/O. No peer uses its flow control."""
