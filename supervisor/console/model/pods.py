"""Pods as rows: only what a row shows is retained of an object of the API."""

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from protocols.kube.objects import mapping, rows
from protocols.kube.times import time_or

MOST_CONTAINERS = 64
MOST_MESSAGE = 200
"""Characters of a container's last words."""


class _PodContainer(msgspec.Struct, frozen=True):
    name: str
    ready: bool
    restarts: int
    state: str
    """running, waiting or terminated, with the reason."""
    image: str
    ended: str = ""
    """Exit code or signal of its last run; empty if none has ended."""


class Pod(msgspec.Struct, frozen=True):
    """A row of the pods screen."""

    uid: str
    namespace: str
    name: str
    phase: str
    status: str
    """The phase, or the reason a container waits or ended, as kubectl shows it."""
    ready: int
    containers: tuple[_PodContainer, ...]
    restarts: int
    node: str
    created: float
    message: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodReplicas:
    """Pods by `namespace/name`, as the API's watch reports them."""

    def __init__(self) -> None:
        self.items: dict[str, Pod] = {}
        self.synced = False
        self.failure = ""
        """Why the watch is interrupted; empty while it is open."""

    def put(self, pod: Pod) -> bool:
        """Store a pod; True if its status is another one than before."""
        old = self.items.get(pod.key)
        self.items[pod.key] = pod
        return old is None or old.uid != pod.uid or (old.status, old.containers) != (pod.status, pod.containers)

    def remove(self, key: str) -> None:
        self.items.pop(key, None)


def pod_of(obj: dict[str, Any]) -> Pod:
    """Return the row of a Pod object. Fields of a wrong type count as missing."""
    metadata, spec, status = (mapping(obj.get(name)) for name in ("metadata", "spec", "status"))
    images = {str(row.get("name")): str(row.get("image") or "") for row in rows(spec.get("containers"))}
    statuses = {str(row.get("name")): row for row in rows(status.get("containerStatuses"))}
    containers = tuple(
        _container(name, images[name], statuses.get(name, {})) for name in list(images)[:MOST_CONTAINERS]
    )
    phase = str(status.get("phase") or "Unknown")
    return Pod(
        uid=str(metadata.get("uid") or ""),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        phase=phase,
        status="Terminating" if metadata.get("deletionTimestamp") else _status(phase, status, containers),
        ready=sum(container.ready for container in containers),
        containers=containers,
        restarts=sum(container.restarts for container in containers),
        node=str(spec.get("nodeName") or ""),
        created=time_or(metadata.get("creationTimestamp")),
        message=str(status.get("message") or "")[:1000],
    )


def _container(name: str, image: str, status: dict[str, Any]) -> _PodContainer:
    kind, detail = next(iter(mapping(status.get("state")).items()), ("waiting", {}))
    reason = str(mapping(detail).get("reason") or "")
    if kind == "terminated" and not reason:
        reason = f"exit code {mapping(detail).get('exitCode')}"
    restarts = status.get("restartCount")
    state = f"{kind}: {reason}" if reason else kind
    count = restarts if isinstance(restarts, int) else 0
    return _PodContainer(name, bool(status.get("ready")), count, state, image, _ended(status))


def _ended(status: dict[str, Any]) -> str:
    runs = (mapping(mapping(status.get(field)).get("terminated")) for field in ("state", "lastState"))
    last = next(filter(None, runs), None)
    if last is None:
        return ""
    finished = time_or(last.get("finishedAt"))
    at = f" at {time.strftime('%H:%M:%S', time.localtime(finished))}" if finished else ""
    parts = (str(last.get("reason") or ""), str(last.get("message") or "")[:MOST_MESSAGE])
    return ", ".join(filter(None, (f"exit code {last.get('exitCode')}{at}", *parts)))


def _status(phase: str, status: dict[str, Any], containers: Iterable[_PodContainer]) -> str:
    if reason := status.get("reason"):
        return str(reason)
    reasons = [
        container.state.partition(": ")[2] for container in containers if not container.state.startswith("running")
    ]
    return next(filter(None, reasons), phase) if phase in ("Pending", "Running") else phase
