"""What is told of a node between processes that do not know each other."""

INSTANCE = "nodeplane.dev/instance"
"""Annotation of the Node object: which life-long instance (a root) has the name."""

SERVING_SUFFIX = ".nodes.nodeplane.internal"


def serving_name(node: str) -> str:
    """Return the only name in the certificate that a node's endpoint serves with.

    It is no name of the API, whatever a node is called: no client takes a node for the API.
    """
    return node + SERVING_SUFFIX
