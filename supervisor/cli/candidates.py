"""Values of arguments that a running plane knows, for completion: pods and devices. Nothing where none answers."""

from collections.abc import Sequence
from contextlib import suppress

from protocols.bus import Replica
from protocols.errors import NodeplaneError
from protocols.messages import devices
from protocols.process.layout import Layout
from supervisor.client.connection import Asking, ask

ANSWER_S = 1.0
"""Time in which a stream must be synced: somebody waits at a prompt."""
MOST = 200


def pod_names(where: Layout, namespace: str) -> list[str]:
    """Return the names of the pods of a namespace."""
    return _named(where, "objects/core/pods", namespace)


def _named(where: Layout, stream: str, namespace: str) -> list[str]:
    head = f"{namespace}/"
    keys = _keys(where, "watchcache", stream)
    return sorted(key.removeprefix(head) for key in keys if key.startswith(head))[:MOST]


def names_of(where: Layout, kind: str, namespace: str) -> list[str]:
    """Return the names of a kind of target of `nodeplane why`."""
    if kind == "device":
        plugins = [key.replace(" ", "/", 1) for key in _keys(where, devices.OWNER, devices.HEALTH)]
        return sorted({*plugins, *_keys(where, devices.OWNER, devices.DRA_HEALTH)})[:MOST]
    if kind == "plugin":
        resources = _keys(where, devices.OWNER, devices.DEVICES)
        return sorted({*resources, *_keys(where, devices.OWNER, devices.DRA_DRIVERS)})[:MOST]
    if kind == "node":
        nodes = _keys(where, "watchcache", "objects/core/nodes")
        return sorted(key for key in nodes if not key.startswith("@"))[:MOST]  # the others are its history
    if kind == "pod":
        return pod_names(where, namespace)
    return _named(where, "objects/resource.k8s.io/resourceclaims", namespace)


def device_words(where: Layout, given: Sequence[str]) -> list[str]:
    """Return what may follow the words that name a device: resources, ids of a resource, DRIVER/POOL/DEVICE."""
    if len(given) > 1 or (given and given[0].count("/") > 1):
        return []
    plugins = [key.partition(" ") for key in _keys(where, devices.OWNER, devices.HEALTH)]
    if given:
        return sorted(id for resource, _, id in plugins if resource == given[0])[:MOST]
    claimed = _keys(where, devices.OWNER, devices.DRA_HEALTH)
    return sorted({resource for resource, _, _ in plugins} | set(claimed))[:MOST]


def _keys(where: Layout, owner: str, stream: str) -> list[str]:
    async def read(asking: Asking) -> list[str]:
        replica = Replica[bytes]()
        await asking.bus.follow(owner=owner, stream=stream, sink=replica, type=bytes).wait_synced(ANSWER_S)
        return list(replica.items)

    with suppress(NodeplaneError, OSError):
        return ask(where, read)
    return []
