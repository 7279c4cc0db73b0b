"""Topology hints and the topology policy. Pure."""
