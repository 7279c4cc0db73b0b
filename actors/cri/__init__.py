"""The one connection to the container runtime."""
