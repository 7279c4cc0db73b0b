"""What is told of a node between processes that do not know each other."""

INSTANCE = "nodeplane.dev/instance"
"""Annotation of the Node object: which life-long instance (a root) has the name."""
