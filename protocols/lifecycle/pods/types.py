"""Pods and containers as podworker reads them from the API, and the plan of what to do with them. Start here."""

import hashlib
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any, cast

import msgspec

from protocols.kinds import views
from protocols.kube.pods import is_finished
from protocols.lifecycle.errors import PodInvalid

SECOND = 1_000_000_000
"""Nanoseconds."""

APP, INIT, SIDECAR, EPHEMERAL = "app", "init", "sidecar", "ephemeral"
ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
RESTART, RESTART_ALL = "Restart", "RestartAllContainers"
"""Actions of restartPolicyRules."""
DEFAULT_GRACE = 30
SOURCE = "kubernetes.io/config.source"
"""Annotation: where a pod comes from."""


class PodStage(IntEnum):
    """Lifecycle stage of one pod uid on this node; it never goes back."""

    SYNCING = 0
    TERMINATING = 1
    """Containers are being stopped; none is started any more."""
    TERMINATED = 2
    """Nothing runs, devices are free; the final status is being sent."""
    FINISHED = 3
    """Deleted from the API and from the runtime."""


class ContainerSpec(msgspec.Struct, frozen=True):
    """A container of a pod's spec; `raw` is its whole object."""

    name: str
    image: str
    kind: str
    """app, init, sidecar (an init container with restartPolicy Always), or ephemeral."""
    hash: str
    """Hash of name and image, compared with that of a running container."""
    raw: views.Container = {}
    target: str = ""
    """Name of the container whose PID namespace an ephemeral container joins; empty for none."""


class PodSpec(msgspec.Struct, frozen=True, dict=True):
    """Typed view of a pod object. Derived views are cached: a pod may have 20,000 containers."""

    uid: str
    name: str
    namespace: str
    restart_policy: str = ALWAYS
    host_network: bool = False
    containers: tuple[ContainerSpec, ...] = ()
    """Init containers and sidecars in spec order, then app containers."""
    ephemeral: tuple[ContainerSpec, ...] = ()
    """Run once, and do not affect the phase of the pod."""
    deleting: bool = False
    grace: int = 30
    """Seconds; deletionGracePeriodSeconds once it is being deleted."""
    terminal: bool = False
    """The API already has phase Succeeded or Failed."""
    raw: views.Pod = {}

    @cached_property
    def inits(self) -> tuple[ContainerSpec, ...]:
        return tuple(c for c in self.containers if c.kind != APP)

    def find(self, name: str) -> ContainerSpec | None:
        """Return a container of any kind."""
        return self.by_name.get(name)

    @cached_property
    def restarts_in_place(self) -> bool:
        """True if a rule may restart all containers after the exit of one."""
        rules = (rule for container in self.containers for rule in container.raw.get("restartPolicyRules") or ())
        return any(rule.get("action") == RESTART_ALL for rule in rules)

    @cached_property
    def by_name(self) -> dict[str, ContainerSpec]:
        return {container.name: container for container in (*self.ephemeral, *self.containers)}

    @cached_property
    def apps(self) -> tuple[ContainerSpec, ...]:
        return tuple(c for c in self.containers if c.kind == APP)


class Waiting(msgspec.Struct, frozen=True):
    """Reason and message of a container that is not running."""

    reason: str
    message: str = ""


class BackoffEntry(msgspec.Struct, frozen=True):
    """Back-off of one container of a pod."""

    delay_ns: int
    """0: runs that ended until `updated_ns` did not crash, and there were none since."""
    updated_ns: int
    hash: str = ""


class StartFailure(msgspec.Struct, frozen=True):
    """A failed StartContainer call: the runtime may retain no other trace of it."""

    finished_ns: int
    message: str


class Start(msgspec.Struct, frozen=True):
    """Step of a plan: create a container and start it."""

    name: str
    attempt: int
    existing: str = ""
    """Id of a container that was created but never started: it is only started."""
    target: str = ""
    """Id of the container whose PID namespace an ephemeral container joins."""
    crashed_ns: int = 0
    """End of the previous run, from which the back-off continues."""


class Kill(msgspec.Struct, frozen=True):
    """Step of a plan: end a container."""

    id: str
    name: str
    message: str
    grace: int = 0
    """Seconds; 0 = the pod's."""
    restart: bool = False
    """The container is started again, whatever its exit code."""
    after: tuple[str, ...] = ()
    """Ids of containers that end before this one, as long as the grace period permits."""
    fast: bool = False
    """Neither the preStop hook runs nor the grace period applies."""


class PodActions(msgspec.Struct, frozen=True):
    """Changes to make in the runtime, in the order of the fields."""

    kill: tuple[Kill, ...] = ()
    stop_sandboxes: tuple[str, ...] = ()
    create_sandbox: int = -1
    """Attempt of the sandbox to create; -1 = keep the current one."""
    sandbox: str = ""
    """Id of the sandbox the containers start in, when it exists."""
    start: tuple[Start, ...] = ()
    remove: tuple[str, ...] = ()
    """Ids of dead containers beyond the retained ones."""
    remove_sandboxes: tuple[str, ...] = ()
    """Ids of earlier sandboxes that have no container left."""
    waiting: dict[str, Waiting] = {}
    restarting: frozenset[str] = frozenset()
    """Names of ended containers that start again although their restart policy would not start them."""
    restart_all: bool = False
    """All containers are ended and removed, to be started again in the same sandbox."""
    wake_ns: int = 0
    """End of the first back-off; 0 = none."""

    @property
    def ends(self) -> bool:
        """True if the plan stops or removes anything."""
        return bool(self.kill or self.stop_sandboxes or self.remove or self.remove_sandboxes)

    @property
    def mutates(self) -> bool:
        return self.ends or self.create_sandbox >= 0 or bool(self.start)


def read_pod(pod: views.Pod) -> PodSpec:
    """Return the typed view of an API pod, with the API's defaults for missing fields. Raises PodInvalid."""
    try:
        return _read(pod)
    except (AttributeError, TypeError, ValueError) as error:
        raise PodInvalid(f"not a pod that can be run: {error}") from None


def _read(pod: views.Pod) -> PodSpec:
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return PodSpec(
        uid=metadata.get("uid", ""),
        name=metadata.get("name", ""),
        namespace=metadata.get("namespace", ""),
        restart_policy=spec.get("restartPolicy") or ALWAYS,
        host_network=bool(spec.get("hostNetwork")),
        containers=_containers(spec),
        ephemeral=tuple(map(_ephemeral, spec.get("ephemeralContainers") or ())),
        deleting=bool(metadata.get("deletionTimestamp")),
        grace=_grace(metadata, spec),
        terminal=is_finished(pod),
        raw=pod,
    )


def container_hash(name: str, image: str) -> str:
    """Return the hash by which a changed image is noticed, as kubelet notices it."""
    return hashlib.sha256(f"{name}\0{image}".encode()).hexdigest()[:8]


def _containers(spec: views.PodSpec) -> tuple[ContainerSpec, ...]:
    inits = [
        _container(c, SIDECAR if c.get("restartPolicy") == ALWAYS else INIT) for c in spec.get("initContainers") or ()
    ]
    return (*inits, *(_container(c, APP) for c in spec.get("containers") or ()))


def _container(raw: views.Container, kind: str) -> ContainerSpec:
    name, image = raw.get("name", ""), raw.get("image", "")
    return ContainerSpec(name=name, image=image, kind=kind, hash=container_hash(name, image), raw=raw)


def _ephemeral(raw: views.EphemeralContainer) -> ContainerSpec:
    container = _container(cast("views.Container", raw), EPHEMERAL)
    return msgspec.structs.replace(container, target=raw.get("targetContainerName") or "")


def _grace(metadata: views.ObjectMeta, spec: views.PodSpec) -> int:
    """Return the grace period in seconds; never below 1, though a forced deletion has 0."""
    for value in (metadata.get("deletionGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")):
        if value is not None:
            return max(1, int(value))
    return DEFAULT_GRACE


def is_static(pod: views.Pod) -> bool:
    """Return True for pods from a manifest on this node."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(SOURCE) == "file")


def format_pod(spec: PodSpec) -> str:
    """Return the pod as messages of kubelet name it."""
    return f"{spec.name}_{spec.namespace}({spec.uid})"


def object_uid(obj: Mapping[str, Any]) -> str:
    """Return metadata.uid; empty if the object has none."""
    return str((obj.get("metadata") or {}).get("uid", ""))
