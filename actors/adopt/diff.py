"""From one picture of kubelet to the next, in steps that never give anything to two pods. Pure.

Invariants: folding the steps over the old picture gives the new one, and after every single step each device and each
exclusive CPU belongs to one pod at most.
"""

from collections.abc import Iterable, Mapping

import msgspec

from protocols.messages.devices import PodAllocation

Holding = tuple[str, str]
"""A device as resource and id, or an exclusive CPU."""
Pods = Mapping[str, PodAllocation]
"""By uid."""


class Step(msgspec.Struct, frozen=True):
    uid: str
    allocation: PodAllocation | None
    """None: it has released everything and is gone."""


def held(pod: PodAllocation) -> frozenset[Holding]:
    """What nobody else may have at the same time."""
    devices = {(item.resource, item.id) for container in pod.containers for item in container.devices}
    cpus = {("cpu", str(cpu)) for container in pod.containers for cpu in container.cpus}
    return frozenset(devices | cpus | {("cpu", str(cpu)) for cpu in pod.cpus})


def torn(listed: Iterable[PodAllocation]) -> Holding | None:
    """Something that two pods of one answer hold: kubelet put it together while it gave that from one to the other."""
    seen: set[Holding] = set()
    for pod in listed:
        mine = held(pod)
        if twice := seen & mine:
            return min(twice)
        seen |= mine
    return None


def target(known: Pods, listed: Pods, alive: Iterable[str]) -> dict[str, PodAllocation]:
    """What is to be shown. A pod that the list lacks but the runtime still runs stays (a kubelet that has just started
    lists nothing), unless something of it was given on."""
    taken = frozenset[Holding]().union(*map(held, listed.values()))
    kept = {uid: known[uid] for uid in alive if uid in known and uid not in listed and not held(known[uid]) & taken}
    return {**kept, **listed}


def steps(known: Pods, wanted: Pods) -> list[Step]:
    """`wanted` must not be torn."""
    told = [Step(uid, None) for uid in known if uid not in wanted]
    waiting: list[str] = []
    for uid, pod in wanted.items():
        if uid not in known or held(pod) - held(known[uid]):
            waiting.append(uid)
        elif pod != known[uid]:
            told.append(Step(uid, pod))
    now = {uid: pod if uid in waiting else wanted[uid] for uid, pod in known.items() if uid in wanted}
    owners = {holding: uid for uid, pod in now.items() for holding in held(pod)}
    return told + _taking(waiting, known, wanted, owners)


def _taking(waiting: list[str], known: Pods, wanted: Pods, owners: dict[Holding, str]) -> list[Step]:
    """Those that get something, each once it is free. Pods that wait for one another in a circle: one lets go first."""
    told: list[Step] = []
    while waiting:
        ready = [uid for uid in waiting if all(owners.get(item, uid) == uid for item in held(wanted[uid]))]
        if not ready:
            holder = next(uid for uid in waiting if uid in owners.values())
            owners = {item: uid for item, uid in owners.items() if uid != holder}
            told.append(Step(holder, None))
            continue
        uid = ready[0]
        waiting.remove(uid)
        owners = {item: owner for item, owner in owners.items() if owner != uid}
        owners |= dict.fromkeys(held(wanted[uid]), uid)
        told.append(Step(uid, wanted[uid]))
    return told
