"""CPU and memory of a container as Linux resources. Pure."""

from actors.podworker.types import Object
from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import parse_quantity
from protocols.wire import cri_pb2

NAMES = ("cpu", "memory")
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
LAST_TO_GO, FIRST_TO_GO = -997, 1000
PERIOD_US = 100_000
MINIMAL_QUOTA_US = 1000
MINIMAL_SHARES = 2


def linux_resources(resources: Object) -> "cri_pb2.LinuxContainerResources":
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    cpu, memory = milli(limits.get("cpu")), milli(limits.get("memory")) // 1000
    asked = milli(requests.get("cpu")) or cpu
    return cri_pb2.LinuxContainerResources(
        cpu_period=PERIOD_US if cpu else 0,
        cpu_quota=max(MINIMAL_QUOTA_US, cpu * PERIOD_US // 1000) if cpu else 0,
        cpu_shares=max(MINIMAL_SHARES, asked * 1024 // 1000),
        memory_limit_in_bytes=memory,
    )


def qos_class(pod: Object) -> str:
    """Guaranteed when each container limits cpu and memory, and asks for just as much; BestEffort when none does. Where
    the pod as a whole asks for something, that decides alone."""
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    given = [pod["resources"]] if has_own(pod) else [c.get("resources") or {} for c in containers]
    if not any(_named(g.get(side) or {}) for g in given for side in ("limits", "requests")):
        return BEST_EFFORT
    return GUARANTEED if all(_guaranteed(g) for g in given) else BURSTABLE


def _named(amounts: Object) -> bool:
    return any(milli(amounts.get(name)) for name in NAMES)


def _guaranteed(resources: Object) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(milli(limits.get(n)) > 0 and milli(requests.get(n, limits[n])) == milli(limits[n]) for n in NAMES)


def oom_score(pod: Object, container: Object, memory: int) -> int:
    """How early the kernel kills it for want of memory, by upstream's formula; `memory`: bytes of the machine."""
    quality = qos_class(pod)
    if quality != BURSTABLE or not memory:
        return FIRST_TO_GO if quality == BEST_EFFORT else LAST_TO_GO if quality == GUARANTEED else FIRST_TO_GO - 1
    asked = (_asked(container, "memory") + _share(pod, "memory")) // 1000
    return min(max(1000 - 1000 * asked // memory, 1000 + LAST_TO_GO), FIRST_TO_GO - 1)


def has_own(pod: Object) -> bool:
    """The pod as a whole asks for cpu or memory, or limits them."""
    own = pod.get("resources") or {}
    return any(name in (own.get(side) or {}) for side in ("limits", "requests") for name in NAMES)


def container_resources(pod: Object, container: Object) -> Object:
    """A container without a limit of its own is held to its pod's."""
    own = container.get("resources") or {}
    whole = (pod.get("resources") or {}).get("limits") or {}
    limits = {**{name: whole[name] for name in NAMES if name in whole}, **(own.get("limits") or {})}
    return {**own, "limits": limits}


def pod_resources(pod: Object) -> Object:
    """Of the pod as a whole: what it says itself, else what its containers need at the worst time, together."""
    own = pod.get("resources") or {}
    return {side: {**_together(pod, side), **(own.get(side) or {})} for side in ("limits", "requests")}


def _together(pod: Object, side: str) -> Object:
    """Apps and sidecars run at once; a plain init container runs beside the sidecars before it."""
    total: dict[str, int] = {}
    for name in NAMES:
        sidecars = worst = 0
        for container in pod.get("initContainers") or ():
            amount = _amount(container, side, name)
            if container.get("restartPolicy") == "Always":
                sidecars += amount
            worst = max(worst, sidecars if container.get("restartPolicy") == "Always" else sidecars + amount)
        apps = sum(_amount(c, side, name) for c in pod.get("containers") or ())
        if most := max(worst, apps + sidecars):
            total[name] = most
    return {name: f"{amount}m" for name, amount in total.items()}


def _amount(container: Object, side: str, name: str) -> int:
    return milli(((container.get("resources") or {}).get(side) or {}).get(name))


def _asked(container: Object, name: str) -> int:
    return _amount(container, "requests", name) or _amount(container, "limits", name)


def _share(pod: Object, name: str) -> int:
    """What the pod asks for beyond its containers, in equal parts."""
    asked = milli(((pod.get("resources") or {}).get("requests") or {}).get(name))
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    left = asked - sum(_asked(container, name) for container in containers)
    return max(0, left) // max(1, len(containers))


def milli(quantity: str | int | None) -> int:
    """Thousandths; 0 when absent or unreadable (the API has validated it)."""
    if quantity is None:
        return 0
    try:
        return parse_quantity(quantity).milli()
    except QuantityInvalid:
        return 0
