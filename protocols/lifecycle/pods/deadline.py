"""The deadline of a pod, activeDeadlineSeconds. Pure."""

from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kube.times import parse_time
from protocols.lifecycle.pods.types import SECOND, PodSpec, Waiting

EXCEEDED = Waiting("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def deadline_ns(spec: PodSpec, shown: views.PodStatus) -> int:
    """Return the time at which activeDeadlineSeconds ends, counted from startTime; 0 = never."""
    seconds, started = (spec.raw.get("spec") or {}).get("activeDeadlineSeconds"), shown.get("startTime")
    if seconds is None or not started:
        return 0
    try:
        return int((parse_time(str(started)) + int(seconds)) * SECOND)
    except (NodeplaneError, ValueError):
        return 0
