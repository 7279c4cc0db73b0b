"""In-memory index of sandboxes and containers, with ids, reserved names and the clock of their time stamps."""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from actors.runtime.model.containers import Container, ContainerState, Sandbox
from actors.runtime.model.errors import AmbiguousId, NameReserved, NotFound
from protocols.wire import cri_pb2 as pb


class Clock:
    """Wall time in ns that strictly increases, also past every stamp observed from disk."""

    def __init__(self, wall: Callable[[], int] = time.time_ns) -> None:
        self._wall = wall
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, self._wall())
        return self._last

    def observe(self, stamp: int) -> None:
        """Make later readings exceed `stamp`."""
        self._last = max(self._last, stamp)


V = TypeVar("V")

ID_LENGTH = 64


def new_id() -> str:
    """Return a random id of a sandbox or container, as long as containerd's."""
    return secrets.token_hex(ID_LENGTH // 2)


def sandbox_key(metadata: pb.PodSandboxMetadata) -> str:
    """Return the name that only one sandbox may have: a repeated RunPodSandbox finds it taken."""
    return f"{metadata.name}_{metadata.namespace}_{metadata.uid}_{metadata.attempt}"


def container_key(metadata: pb.ContainerMetadata, pod: pb.PodSandboxMetadata) -> str:
    """Return the name that only one container may have."""
    return f"{metadata.name}_{pod.name}_{pod.namespace}_{pod.uid}_{metadata.attempt}"


def resolve(entries: Mapping[str, V], prefix: str, kind: str) -> V:
    """Return the entry with the id, or the only one whose id has it as a prefix. Raises NotFound, AmbiguousId."""
    if (exact := entries.get(prefix)) is not None:
        return exact
    matches = [key for key in entries if key.startswith(prefix)] if prefix and len(prefix) < ID_LENGTH else []
    if not matches:
        raise NotFound(f'{kind} "{prefix}" not found')
    if len(matches) > 1:
        raise AmbiguousId(f'{kind} id "{prefix}" is a prefix of {len(matches)} ids; give more digits')
    return entries[matches[0]]


class Reservations:
    """Reserved names and the id that holds each; a name is free again when its holder is removed."""

    def __init__(self, kind: str, create_call: str) -> None:
        self._kind = kind
        self._create_call = create_call
        self._holders: dict[str, str] = {}
        self._in_flight: set[str] = set()

    def reserve(self, key: str, holder: str) -> None:
        """Reserve `key` for a creation; settle() or release() ends it. Raises NameReserved."""
        if (other := self._holders.get(key)) is not None:
            hint = f"; check if another {self._create_call} request is in progress" if key in self._in_flight else ""
            raise NameReserved(
                f'failed to reserve {self._kind} name "{key}": name "{key}" is reserved for "{other}"{hint}'
            )
        self._holders[key] = holder
        self._in_flight.add(key)

    def settle(self, key: str) -> None:
        self._in_flight.discard(key)

    def release(self, key: str) -> None:
        self._holders.pop(key, None)
        self._in_flight.discard(key)


NO_LABELS: Mapping[str, str] = MappingProxyType({})


class RuntimePods:
    """All sandboxes and containers of the runtime, by full id."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self.sandbox_names = Reservations("sandbox", "RunPodSandbox")
        self.container_names = Reservations("container", "CreateContainer")

    def sandbox(self, prefix: str) -> Sandbox:
        return resolve(self.sandboxes, prefix, "sandbox")

    def container(self, prefix: str) -> Container:
        return resolve(self.containers, prefix, "container")

    def add_sandbox(self, sandbox: Sandbox) -> None:
        self.sandboxes[sandbox.id] = sandbox
        self.sandbox_names.settle(sandbox_key(sandbox.config.metadata))

    def add_container(self, container: Container) -> None:
        self.containers[container.id] = container
        container.sandbox.containers[container.id] = container
        self.container_names.settle(_key(container))

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        del self.sandboxes[sandbox.id]
        self.sandbox_names.release(sandbox_key(sandbox.config.metadata))

    def remove_container(self, container: Container) -> None:
        del self.containers[container.id]
        del container.sandbox.containers[container.id]
        self.container_names.release(_key(container))

    def list_sandboxes(
        self, id: str = "", state: int | None = None, labels: Mapping[str, str] = NO_LABELS
    ) -> list[Sandbox]:
        candidates = _select(self.sandboxes, id, "sandbox")
        selected = [
            sandbox
            for sandbox in candidates
            if (state is None or state == sandbox_state(sandbox)) and _has_labels(sandbox.config.labels, labels)
        ]
        return sorted(selected, key=lambda sandbox: sandbox.record.created_at)

    def list_containers(
        self,
        id: str = "",
        sandbox_id: str = "",
        state: int | None = None,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> list[Container]:
        selected = [
            container
            for container in self._in_sandbox(id, sandbox_id)
            if (state is None or state == container.life.state.value) and _has_labels(container.config.labels, labels)
        ]
        return sorted(selected, key=lambda container: container.life.created_at)

    def _in_sandbox(self, id: str, sandbox_id: str) -> Iterable[Container]:
        containers = _select(self.containers, id, "container")
        if not sandbox_id:
            return containers
        owners = _select(self.sandboxes, sandbox_id, "sandbox")
        return [container for container in containers if container.sandbox in owners]


def _select(entries: Mapping[str, V], id: str, kind: str) -> Collection[V]:
    """Select by the id of a filter: everything if it is empty, nothing if it is unknown or ambiguous."""
    if not id:
        return entries.values()
    try:
        return [resolve(entries, id, kind)]
    except (NotFound, AmbiguousId):
        return []


def _key(container: Container) -> str:
    return container_key(container.config.metadata, container.sandbox.config.metadata)


def sandbox_state(sandbox: Sandbox) -> pb.PodSandboxState:
    """Return READY until a stop is on disk."""
    return pb.SANDBOX_READY if sandbox.record.stopped_at == 0 else pb.SANDBOX_NOTREADY


def _has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def running_containers(containers: Iterable[Container]) -> list[Container]:
    """Return the containers in state RUNNING; created ones have no process yet."""
    return [container for container in containers if container.life.state is ContainerState.RUNNING]
