"""Events of a pod on its node that real and simulated nodes record alike. Pure.

Reasons and messages are kubelet's (pkg/kubelet/events/event.go).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.types import APP, EPHEMERAL, ContainerSpec, PodSpec, Waiting, format_pod
from protocols.lifecycle.restarts.policy import CRASH_LOOP
from protocols.messages.pleg import PodStatus


class PodEvent(NamedTuple):
    """An event about a pod, or about one of its containers."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str
    container: ContainerSpec | None = None


RESIZE_STARTED = PodEvent("Normal", "ResizeStarted", "Pod resize started: the node has allocated what the spec wants")
RESIZE_COMPLETED = PodEvent("Normal", "ResizeCompleted", "Pod resize completed")


def resize_pending(why: Waiting) -> PodEvent:
    """Return the event of a resize that the node does not allocate."""
    return PodEvent("Warning", f"Resize{why.reason}", f"Pod resize {why.reason}: {why.message}")


def claims_not_prepared(why: str) -> PodEvent:
    """Return the event of claims that are not ready for the pod's containers."""
    return PodEvent("Warning", "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {why}")


def sync_failed(why: object) -> PodEvent:
    """Return the event of a failed pass over the pod."""
    return PodEvent("Warning", "FailedSync", f"error syncing pod: {why}")


def new_backoffs(
    spec: PodSpec, status: PodStatus, waiting: Mapping[str, Waiting], announced: set[str]
) -> Iterator[PodEvent]:
    """Yield an event for each ended container that came into back-off, and add its id to `announced`.

    `waiting`: why a container is not started, by its name.
    """
    newest = runtime_status.by_name(status)
    for name, why in waiting.items():
        ended = newest[name][0].id if name in newest else ""
        if why.reason == CRASH_LOOP and ended not in announced:
            announced.add(ended)
            text = f"Back-off restarting failed container {name} in pod {format_pod(spec)}"
            yield PodEvent("Warning", "BackOff", text, spec.find(name))


def field_path(container: ContainerSpec | None) -> str:
    """Return the `involvedObject.fieldPath` of an event; empty for one about the pod itself."""
    if container is None:
        return ""
    field = {APP: "containers", EPHEMERAL: "ephemeralContainers"}.get(container.kind, "initContainers")
    return f"spec.{field}{{{container.name}}}"
