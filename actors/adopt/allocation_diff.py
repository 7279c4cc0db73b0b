"""Turn the difference between two lists of kubelet into steps that never give anything to two pods. Pure.

Invariants: folding the steps over the old list gives the new one, and after every single step each device and each
exclusive CPU belongs to at most one pod.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from protocols.messages.devices import PodAllocation

Resource = tuple[str, str]
"""A device as resource and id, or an exclusive CPU as "cpu" and number."""
Pods = Mapping[str, PodAllocation]
"""By uid."""


class AllocationStep(msgspec.Struct, frozen=True):
    """One pod's allocation after a step."""

    uid: str
    allocation: PodAllocation | None
    """None: the pod has released everything and is gone."""


def exclusive_resources(pod: PodAllocation) -> frozenset[Resource]:
    """Return what no other pod may hold at the same time."""
    devices = {(item.resource, item.id) for container in pod.containers for item in container.devices}
    cpus = {("cpu", str(cpu)) for container in pod.containers for cpu in container.cpus}
    return frozenset(devices | cpus | {("cpu", str(cpu)) for cpu in pod.cpus})


def find_conflict(listed: Iterable[PodAllocation]) -> Resource | None:
    """Return a resource that two pods of one list hold, or None.

    kubelet's list is not atomic: it may show a device both before and after it changed hands.
    """
    seen: set[Resource] = set()
    for pod in listed:
        resources = exclusive_resources(pod)
        if twice := seen & resources:
            return min(twice)
        seen |= resources
    return None


def desired_pods(known: Pods, listed: Pods, running: Iterable[str]) -> dict[str, PodAllocation]:
    """Return the pods to publish, by uid.

    A pod that is missing from the list but runs is retained, since a kubelet that has just started lists nothing. It is
    dropped once one of its resources is listed for another pod.
    """
    taken = frozenset[Resource]().union(*map(exclusive_resources, listed.values()))
    retained = {
        uid: known[uid]
        for uid in running
        if uid in known and uid not in listed and not exclusive_resources(known[uid]) & taken
    }
    return {**retained, **listed}


def diff_steps(known: Pods, desired: Pods) -> list[AllocationStep]:
    """Return the steps from `known` to `desired`, which must be free of conflicts. Releases come first."""
    steps = [AllocationStep(uid, None) for uid in known if uid not in desired]
    growing: dict[str, frozenset[Resource]] = {}
    for uid, pod in desired.items():
        resources = exclusive_resources(pod)
        if uid not in known or resources - exclusive_resources(known[uid]):
            growing[uid] = resources
        elif pod != known[uid]:
            steps.append(AllocationStep(uid, pod))
    current = {uid: pod if uid in growing else desired[uid] for uid, pod in known.items() if uid in desired}
    owners = {resource: uid for uid, pod in current.items() for resource in exclusive_resources(pod)}
    return steps + _allocation_steps(growing, desired, owners)


def _allocation_steps(
    growing: dict[str, frozenset[Resource]], desired: Pods, owners: dict[Resource, str]
) -> list[AllocationStep]:
    """Return a step for each growing pod once what it gets is free. `growing`: what each is to have."""
    held: dict[str, set[Resource]] = defaultdict(set)
    for item, uid in owners.items():
        held[uid].add(item)
    steps: list[AllocationStep] = []
    while growing:
        ready = False
        for uid, resources in list(growing.items()):
            if any(owners.get(item, uid) != uid for item in resources):
                continue
            ready = True
            _release(uid, owners, held)
            owners |= dict.fromkeys(resources, uid)
            held[uid] = set(resources)
            steps.append(AllocationStep(uid, desired[uid]))
            del growing[uid]
        if not ready:
            # Pods that swap resources wait for one another in a circle: one of them releases everything first.
            holder = next(uid for uid in growing if held.get(uid))
            _release(holder, owners, held)
            steps.append(AllocationStep(holder, None))
    return steps


def _release(uid: str, owners: dict[Resource, str], held: dict[str, set[Resource]]) -> None:
    for item in held.pop(uid, ()):
        del owners[item]
