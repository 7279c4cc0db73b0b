"""activeDeadlineSeconds: how long a pod may be active on its node. Pure."""

from actors.podworker.types import SECOND, Object, PodSpec, Waiting
from protocols.errors import NodeplaneError
from protocols.kube.times import parse_time

EXCEEDED = Waiting("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def deadline_ns(spec: PodSpec, shown: Object) -> int:
    """When the pod's time is over, counted from its startTime; 0 = never."""
    seconds, started = (spec.raw.get("spec") or {}).get("activeDeadlineSeconds"), shown.get("startTime")
    if seconds is None or not started:
        return 0
    try:
        return int((parse_time(str(started)) + int(seconds)) * SECOND)
    except (NodeplaneError, ValueError):
        return 0
