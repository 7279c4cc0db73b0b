"""What a Kubernetes kind is, described once for all who read, write, check or encode objects."""
