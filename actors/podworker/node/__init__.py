"""The Node object, its lease and readiness, and the ResourceSlices of drivers that left the node."""
