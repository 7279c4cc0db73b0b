"""The Node object, its lease, and whether the node has room for a pod."""
