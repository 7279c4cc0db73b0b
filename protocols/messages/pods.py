"""Spoken by `podworker`: the pods of this node as it sees them, status included."""

import msgspec

OWNER = "podworker"

NODE_PODS = "node-pods"
"""State stream, key = pod uid, value = NodePod. Owned once the API and the manifests were both read, so a snapshot is
always whole; a pod leaves it when the API or the manifests no longer have it, whatever of it still runs."""


class NodePod(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    containers: tuple[str, ...]
    """App containers, in spec order."""
    pod: bytes
    """The object as JSON, with the status that podworker last made of it."""
