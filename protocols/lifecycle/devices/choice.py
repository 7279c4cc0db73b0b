"""Which of the available devices a container gets, where neither a plugin nor a topology policy has a say. Pure.

Deterministic: the same state gives the same devices. Messages are kubelet's.
"""

from collections.abc import Iterable, Mapping, Sequence

from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger
from protocols.lifecycle.devices.plan import DevicePlan, rejection, steps
from protocols.lifecycle.devices.types import DeviceKey
from protocols.lifecycle.errors import NotEnoughResource
from protocols.messages.devices import AdmitPod


def choose(need: int, available: Sequence[str], numa: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return `need` of the `available` ids (at least that many) on few NUMA nodes.

    The smallest node that has all of them wins, else the fullest nodes are used first; within a node by id.
    """
    if not numa:
        return sorted(available)[:need]
    groups = _by_node(available, numa)
    fitting = [node for node, ids in groups.items() if len(ids) >= need]
    if fitting:
        best = min(fitting, key=lambda node: (len(groups[node]), node))
        return groups[best][:need]
    order = sorted(groups, key=lambda node: (-len(groups[node]), node))
    return [id for node in order for id in groups[node]][:need]


def _by_node(ids: Iterable[str], numa: Mapping[str, tuple[int, ...]]) -> dict[int, list[str]]:
    """Group ids by NUMA node, -1 without topology. A device on several nodes counts for its first."""
    groups: dict[int, list[str]] = {}
    for id in sorted(ids):
        nodes = numa.get(id, ())
        groups.setdefault(nodes[0] if nodes else -1, []).append(id)
    return groups


def follow_preference(preferred: Iterable[str], taken: Iterable[str], need: int, available: Sequence[str]) -> list[str]:
    """Return at most `need` of the plugin's preferred ids, skipping unknown, taken and repeated ones."""
    free = set(available) - set(taken)
    kept: list[str] = []
    for id in preferred:
        if id in free and len(kept) < need:
            kept.append(id)
            free.discard(id)
    return kept


def reserve(pod: AdmitPod, inventory: Inventory, ledger: Ledger) -> DevicePlan:
    """Reserve devices for every container under the pod's uid. Resources that this node never had are ignored.

    Raises AdmissionRejected or NotEnoughResource; nothing stays reserved then.
    """
    plan = DevicePlan()
    try:
        for container, resource, count in steps(pod):
            if resource in inventory.resources:
                check_present(resource, count, inventory, ledger)
                reused = plan.reuse(resource, count)
                numa = inventory.resources[resource].numa
                need = count - len(reused)
                picked = choose(need, free_devices(resource, need, inventory, ledger), numa)
                ledger.reserve(pod.uid, [DeviceKey(resource, id) for id in picked])
                plan.take(container, resource, reused + picked)
    except Exception:
        ledger.cancel(pod.uid)
        raise
    return plan


def check_present(resource: str, count: int, inventory: Inventory, ledger: Ledger) -> None:
    """Raise kubelet's error if nothing of the resource can be allocated."""
    if not inventory.registered(resource):
        if ledger.holds(resource):
            raise rejection(f"cannot allocate unregistered device {resource}")
        raise NotEnoughResource(resource, count)
    if not inventory.healthy(resource):
        raise rejection(f"no healthy devices present; cannot allocate unhealthy devices {resource}")


def free_devices(resource: str, need: int, inventory: Inventory, ledger: Ledger) -> list[str]:
    """Return the healthy devices that nobody has. Raises AdmissionRejected if they are fewer than `need`."""
    free = ledger.free(resource, inventory.healthy(resource))
    if len(free) < need:
        raise rejection(
            f"requested number of devices unavailable for {resource}. Requested: {need}, Available: {len(free)}"
        )
    return free
