"""A pod's object as the rules read it. Values of a wrong type count as missing."""

from collections.abc import Iterator

import msgspec

from protocols.kinds import views
from protocols.kube.meta import Object, meta
from protocols.kube.objects import mapping, number, rows
from protocols.kube.times import time_or
from supervisor.why.model.types import ApiEvent, PodEvidence

INIT, APP, EPHEMERAL = "init container", "container", "ephemeral container"


class ContainerEnd(msgspec.Struct, frozen=True):
    """The end of a container's run."""

    code: int
    reason: str
    message: str
    started: float
    finished: float


class ContainerView(msgspec.Struct, frozen=True):
    """Spec and status of one container."""

    name: str
    kind: str
    """INIT, APP or EPHEMERAL; a sidecar is an init container."""
    spec: Object
    ready: bool = False
    started: bool = False
    restarts: int = 0
    running: float = 0.0
    """Start of the current run; 0 = none runs."""
    waiting: str = ""
    """Reason for which it waits."""
    message: str = ""
    """Message of its waiting state."""
    ended: ContainerEnd | None = None
    """Set while it is terminated."""
    last: ContainerEnd | None = None
    """The run before the current state."""

    @property
    def sidecar(self) -> bool:
        """True for an init container that runs beside the others: its end is not that of the pod."""
        return self.kind == INIT and self.spec.get("restartPolicy") == "Always"

    @property
    def image(self) -> str:
        return str(self.spec.get("image") or "")


def containers(pod: views.Pod) -> list[ContainerView]:
    """Return init containers, then the others, in the order of the spec."""
    return [
        *_of(pod, "initContainers", "initContainerStatuses", INIT),
        *_of(pod, "containers", "containerStatuses", APP),
    ]


def alive(pod: views.Pod) -> list[ContainerView]:
    """Return the containers that run, ephemeral ones included."""
    shells = _of(pod, "ephemeralContainers", "ephemeralContainerStatuses", EPHEMERAL)
    return [container for container in (*containers(pod), *shells) if container.running]


def _of(pod: views.Pod, field: str, status_field: str, kind: str) -> Iterator[ContainerView]:
    statuses = {str(row.get("name")): row for row in rows(status_of(pod).get(status_field))}
    for spec in rows(spec_of(pod).get(field)):
        name = str(spec.get("name"))
        yield _container(name, kind, spec, statuses.get(name, {}))


def _container(name: str, kind: str, spec: Object, status: Object) -> ContainerView:
    state = mapping(status.get("state"))
    waiting, running = mapping(state.get("waiting")), mapping(state.get("running"))
    return ContainerView(
        name=name,
        kind=kind,
        spec=spec,
        ready=status.get("ready") is True,
        started=status.get("started") is True,
        restarts=number(status.get("restartCount")),
        running=time_or(running.get("startedAt")),
        waiting=str(waiting.get("reason") or ""),
        message=str(waiting.get("message") or ""),
        ended=_ended(state),
        last=_ended(mapping(status.get("lastState"))),
    )


def _ended(state: Object) -> ContainerEnd | None:
    terminated = mapping(state.get("terminated"))
    if not terminated:
        return None
    return ContainerEnd(
        number(terminated.get("exitCode")),
        str(terminated.get("reason") or ""),
        str(terminated.get("message") or "").strip(),
        time_or(terminated.get("startedAt")),
        time_or(terminated.get("finishedAt")),
    )


def events_about(found: PodEvidence, container: ContainerView) -> list[ApiEvent]:
    """Return the events of the pod without those that name another container."""
    return [event for event in found.events if event.container in ("", container.name)]


def spec_of(pod: views.Pod) -> Object:
    """Return the pod's spec; an empty one if it is missing."""
    return mapping(pod.get("spec"))


def status_of(pod: views.Pod) -> Object:
    """Return the pod's status; an empty one if it is missing."""
    return mapping(pod.get("status"))


def deleted_at(pod: views.Pod) -> float:
    """Return when the deletion was requested; the API stores the end of the grace period."""
    ends = time_or(meta(pod).get("deletionTimestamp"))
    return ends - number(meta(pod).get("deletionGracePeriodSeconds")) if ends else 0.0


def requested(pod: views.Pod) -> set[str]:
    """Return the extended resources that containers request."""
    all_limits = (mapping(mapping(container.spec.get("resources")).get("limits")) for container in containers(pod))
    return {str(name) for limits in all_limits for name in limits if "/" in str(name)}
