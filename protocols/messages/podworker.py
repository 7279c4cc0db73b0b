"""Messages of `podworker`: the pods of this node, ended pods with what they held, and names of its node's endpoint."""

import msgspec

from protocols.messages.health import PodHeld

OWNER = "podworker"

ENDED_PODS = "ended-pods"
"""State stream, key = pod uid, value = EndedPod: pods that are over, still in the API, and held devices."""


class EndedPod(msgspec.Struct, frozen=True):
    """A finished pod and the devices it held, for its last device status."""

    uid: str
    namespace: str
    name: str
    held: PodHeld


INITIALIZING_PODS = "initializing-pods"
"""State stream, key = pod uid, value = InitializingPod: pods whose plain init containers have not all completed."""


class InitializingPod(msgspec.Struct, frozen=True):
    """A pod that still runs init containers."""

    uid: str
    containers: tuple[str, ...]
    """Names of the plain init containers that have yet to complete."""


NODE_PODS = "node-pods"
"""State stream, key = pod uid, value = NodePod. Owned once the API and the manifests were both read, so a snapshot is
always whole; a pod leaves it when the API or the manifests no longer have it, whatever of it still runs."""


class NodePod(msgspec.Struct, frozen=True):
    """A pod of this node as PodResources clients and the node's endpoint see it."""

    uid: str
    namespace: str
    name: str
    containers: tuple[str, ...]
    """App containers, in spec order."""
    pod: bytes
    """The object as JSON, with the status that podworker last made of it."""


INSTANCE = "nodeplane.dev/instance"
"""Annotation of the Node object: identity of the root that has the name."""

SERVING_SUFFIX = ".nodes.nodeplane.internal"


def serving_name(node: str) -> str:
    """Return the only name in the certificate that a node's endpoint serves with.

    It is no name of the API, whatever a node is called: no client takes a node for the API.
    """
    return node + SERVING_SUFFIX
