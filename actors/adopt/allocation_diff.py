"""Turn the difference between two lists of kubelet into steps that never give anything to two pods. Pure.

Invariants: folding the steps over the old list gives the new one, and after every single step each device and each
exclusive CPU belongs to at most one pod.
"""

from collections.abc import Iterable, Mapping

import msgspec

from protocols.messages.devices import PodAllocation

Resource = tuple[str, str]
"""A device as resource and id, or an exclusive CPU as "cpu" and number."""
Pods = Mapping[str, PodAllocation]
"""By uid."""


class Step(msgspec.Struct, frozen=True):
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


def diff_steps(known: Pods, desired: Pods) -> list[Step]:
    """Return the steps from `known` to `desired`, which must be free of conflicts. Releases come first."""
    steps = [Step(uid, None) for uid in known if uid not in desired]
    growing: list[str] = []
    for uid, pod in desired.items():
        if uid not in known or exclusive_resources(pod) - exclusive_resources(known[uid]):
            growing.append(uid)
        elif pod != known[uid]:
            steps.append(Step(uid, pod))
    current = {uid: pod if uid in growing else desired[uid] for uid, pod in known.items() if uid in desired}
    owners = {resource: uid for uid, pod in current.items() for resource in exclusive_resources(pod)}
    return steps + _allocation_steps(growing, desired, owners)


def _allocation_steps(growing: list[str], desired: Pods, owners: dict[Resource, str]) -> list[Step]:
    """Return a step for each growing pod once what it gets is free."""
    steps: list[Step] = []
    while growing:
        ready = [
            uid for uid in growing if all(owners.get(item, uid) == uid for item in exclusive_resources(desired[uid]))
        ]
        if not ready:
            # Pods that swap resources wait for one another in a circle: one of them releases everything first.
            holder = next(uid for uid in growing if uid in owners.values())
            owners = {item: uid for item, uid in owners.items() if uid != holder}
            steps.append(Step(holder, None))
            continue
        uid = ready[0]
        growing.remove(uid)
        owners = {item: owner for item, owner in owners.items() if owner != uid}
        owners |= dict.fromkeys(exclusive_resources(desired[uid]), uid)
        steps.append(Step(uid, desired[uid]))
    return steps
