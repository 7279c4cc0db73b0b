"""Pods and containers as podworker reads them from the API, and the plan of what to do with them. Start here."""

import hashlib
from enum import IntEnum
from functools import cached_property
from typing import Any

import msgspec

from actors.podworker.model.errors import PodInvalid

Object = dict[str, Any]
"""A plain JSON object of the API."""

SECOND = 1_000_000_000
"""Nanoseconds."""

APP, INIT, SIDECAR, EPHEMERAL = "app", "init", "sidecar", "ephemeral"
ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"


class Stage(IntEnum):
    """Life of one pod uid on this node; it only ever grows."""

    SYNCING = 0
    TERMINATING = 1
    """Containers are being stopped; nothing is started any more."""
    TERMINATED = 2
    """Nothing runs, devices are free; the final status is on its way."""
    FINISHED = 3
    """Deleted from the API and from the runtime."""


class ContainerSpec(msgspec.Struct, frozen=True):
    name: str
    image: str
    kind: str
    """app, init, sidecar (an init container with restartPolicy Always), or ephemeral."""
    hash: str
    """Of name and image only: what a running container is compared with."""
    raw: Object = {}


class PodSpec(msgspec.Struct, frozen=True, dict=True):
    """What podworker needs of a pod object, typed. Views of its containers are made once: a pod may have 20,000."""

    uid: str
    name: str
    namespace: str
    restart_policy: str = ALWAYS
    host_network: bool = False
    containers: tuple[ContainerSpec, ...] = ()
    """Init containers and sidecars in spec order, then app containers."""
    ephemeral: tuple[ContainerSpec, ...] = ()
    """Added while it runs: they decide nothing of the pod's life, and run once."""
    deleting: bool = False
    grace: int = 30
    """Seconds; deletionGracePeriodSeconds once it is being deleted."""
    terminal: bool = False
    """The API already has phase Succeeded or Failed."""
    raw: Object = {}

    @cached_property
    def inits(self) -> tuple[ContainerSpec, ...]:
        return tuple(c for c in self.containers if c.kind != APP)

    def find(self, name: str) -> ContainerSpec | None:
        """Of any kind."""
        return self.by_name.get(name)

    @cached_property
    def by_name(self) -> dict[str, ContainerSpec]:
        return {container.name: container for container in (*self.ephemeral, *self.containers)}

    @cached_property
    def apps(self) -> tuple[ContainerSpec, ...]:
        return tuple(c for c in self.containers if c.kind == APP)


class Waiting(msgspec.Struct, frozen=True):
    """Why a container is not running, as its status shows it."""

    reason: str
    message: str = ""


class BackoffEntry(msgspec.Struct, frozen=True):
    delay_ns: int
    """0: runs that ended until `updated_ns` were no crashes, and there were none since."""
    updated_ns: int
    hash: str = ""


class StartFailure(msgspec.Struct, frozen=True):
    """A StartContainer call that came back with an error: the runtime may leave no other trace of it."""

    finished_ns: int
    message: str


class Start(msgspec.Struct, frozen=True):
    name: str
    attempt: int
    existing: str = ""
    """Id of a container that was created and never started: only start it."""
    target: str = ""
    """Id of the container whose processes an ephemeral one is to see."""
    crashed_ns: int = 0
    """When the run before this one ended; the back-off entry moves on from there."""


class Kill(msgspec.Struct, frozen=True):
    id: str
    name: str
    message: str
    grace: int = 0
    """Seconds; 0 = the pod's."""


class Plan(msgspec.Struct, frozen=True):
    """What has to be done to the runtime, in this order."""

    kill: tuple[Kill, ...] = ()
    stop_sandboxes: tuple[str, ...] = ()
    create_sandbox: int = -1
    """Attempt of the sandbox to create; -1 = keep what is there."""
    sandbox: str = ""
    """Id of the sandbox the containers start in, when it exists."""
    start: tuple[Start, ...] = ()
    remove: tuple[str, ...] = ()
    """Dead containers that are no longer kept."""
    waiting: dict[str, Waiting] = {}
    wake_ns: int = 0
    """When a back-off ends; 0 = nothing to wait for."""

    @property
    def mutates(self) -> bool:
        return bool(self.kill or self.stop_sandboxes or self.create_sandbox >= 0 or self.start or self.remove)


DEFAULT_GRACE = 30
TERMINAL = ("Succeeded", "Failed")


def read_pod(pod: Object) -> PodSpec:
    """Typed view of an API pod; missing fields get the API's defaults. Raises PodInvalid."""
    try:
        return _read(pod)
    except (AttributeError, TypeError, ValueError) as error:
        raise PodInvalid(f"not a pod that can be run: {error}") from None


def _read(pod: Object) -> PodSpec:
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return PodSpec(
        uid=metadata.get("uid", ""),
        name=metadata.get("name", ""),
        namespace=metadata.get("namespace", ""),
        restart_policy=spec.get("restartPolicy") or ALWAYS,
        host_network=bool(spec.get("hostNetwork")),
        containers=_containers(spec),
        ephemeral=tuple(_container(c, EPHEMERAL) for c in spec.get("ephemeralContainers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
        grace=_grace(metadata, spec),
        terminal=(pod.get("status") or {}).get("phase") in TERMINAL,
        raw=pod,
    )


def container_hash(name: str, image: str) -> str:
    return hashlib.sha256(f"{name}\0{image}".encode()).hexdigest()[:8]


def _containers(spec: Object) -> tuple[ContainerSpec, ...]:
    inits = [
        _container(c, SIDECAR if c.get("restartPolicy") == ALWAYS else INIT) for c in spec.get("initContainers") or ()
    ]
    return (*inits, *(_container(c, APP) for c in spec.get("containers") or ()))


def _container(raw: Object, kind: str) -> ContainerSpec:
    name, image = raw.get("name", ""), raw.get("image", "")
    return ContainerSpec(name=name, image=image, kind=kind, hash=container_hash(name, image), raw=raw)


def _grace(metadata: Object, spec: Object) -> int:
    """Seconds a pod gets to end; never below 1 (a forced deletion asks for 0)."""
    for value in (metadata.get("deletionGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")):
        if value is not None:
            return max(1, int(value))
    return DEFAULT_GRACE


def is_static(pod: Object) -> bool:
    """It comes from a manifest on this node, not from the API."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get("kubernetes.io/config.source") == "file")
