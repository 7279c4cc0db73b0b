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
    """Guaranteed when each container limits cpu and memory, and asks for just as much; BestEffort when none does."""
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    given = [c.get("resources") or {} for c in containers]
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
    resources = container.get("resources") or {}
    asked = milli((resources.get("requests") or resources.get("limits") or {}).get("memory")) // 1000
    return min(max(1000 - 1000 * asked // memory, 1000 + LAST_TO_GO), FIRST_TO_GO - 1)


def milli(quantity: str | int | None) -> int:
    """Thousandths; 0 when absent or unreadable (the API has validated it)."""
    if quantity is None:
        return 0
    try:
        return parse_quantity(quantity).milli()
    except QuantityInvalid:
        return 0
