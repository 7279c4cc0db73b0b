"""CPU and memory of a container as Linux resources. Pure."""

from actors.podworker.types import Object
from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import parse_quantity
from protocols.wire import cri_pb2

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


def milli(quantity: str | int | None) -> int:
    """Thousandths; 0 when absent or unreadable (the API has validated it)."""
    if quantity is None:
        return 0
    try:
        return parse_quantity(quantity).milli()
    except QuantityInvalid:
        return 0
