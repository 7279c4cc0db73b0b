"""Simulated nodes and pods: state machines without I/O and clock, on the rules of protocols/lifecycle."""
