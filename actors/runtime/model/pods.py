"""In-memory index of sandboxes and containers, with ids, reserved names and the clock of their time stamps."""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from actors.runtime.model.containers import Container, Sandbox, State
from actors.runtime.model.errors import AmbiguousId, NameReserved, NotFound
from protocols.wire import cri_pb2 as pb


class Clock:
    """Each reading is later than every earlier one, and than every stamp that was observed from disk."""

    def __init__(self, wall: Callable[[], int] = time.time_ns) -> None:
        self._wall = wall
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, self._wall())
        return self._last

    def observe(self, stamp: int) -> None:
        """Readings are later than `stamp` from now on."""
        self._last = max(self._last, stamp)


V = TypeVar("V")

ID_LENGTH = 64


def new_id() -> str:
    return secrets.token_hex(ID_LENGTH // 2)


def sandbox_key(metadata: pb.PodSandboxMetadata) -> str:
    return f"{metadata.name}_{metadata.namespace}_{metadata.uid}_{metadata.attempt}"


def container_key(metadata: pb.ContainerMetadata, pod: pb.PodSandboxMetadata) -> str:
    return f"{metadata.name}_{pod.name}_{pod.namespace}_{pod.uid}_{metadata.attempt}"


def resolve(entries: Mapping[str, V], wanted: str, kind: str) -> V:
    """The entry whose id is `wanted`, or the only one whose id begins so. Raises NotFound, AmbiguousId."""
    if (exact := entries.get(wanted)) is not None:
        return exact
    found = [key for key in entries if key.startswith(wanted)] if wanted and len(wanted) < ID_LENGTH else []
    if not found:
        raise NotFound(f'{kind} "{wanted}" not found')
    if len(found) > 1:
        raise AmbiguousId(f'{kind} id "{wanted}" is a prefix of {len(found)} ids; give more digits')
    return entries[found[0]]


class Reservations:
    """Which id holds which name. A name is free again only when its holder is removed."""

    def __init__(self, kind: str, create_call: str) -> None:
        self._kind = kind
        self._create_call = create_call
        self._holders: dict[str, str] = {}
        self._in_flight: set[str] = set()

    def reserve(self, key: str, holder: str) -> None:
        """Hold `key` for a creation that has begun; settle() or release() ends that. Raises NameReserved."""
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


class Pods:
    def __init__(self) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self.sandbox_names = Reservations("sandbox", "RunPodSandbox")
        self.container_names = Reservations("container", "CreateContainer")

    def sandbox(self, wanted: str) -> Sandbox:
        return resolve(self.sandboxes, wanted, "sandbox")

    def container(self, wanted: str) -> Container:
        return resolve(self.containers, wanted, "container")

    def add_sandbox(self, sandbox: Sandbox) -> None:
        self.sandboxes[sandbox.id] = sandbox
        self.sandbox_names.settle(sandbox_key(sandbox.config.metadata))

    def add_container(self, container: Container) -> None:
        self.containers[container.id] = container
        container.sandbox.containers[container.id] = container
        self.container_names.settle(_key(container))

    def drop_sandbox(self, sandbox: Sandbox) -> None:
        del self.sandboxes[sandbox.id]
        self.sandbox_names.release(sandbox_key(sandbox.config.metadata))

    def drop_container(self, container: Container) -> None:
        del self.containers[container.id]
        del container.sandbox.containers[container.id]
        self.container_names.release(_key(container))

    def list_sandboxes(
        self, id: str = "", state: int | None = None, labels: Mapping[str, str] = NO_LABELS
    ) -> list[Sandbox]:
        found = _some(self.sandboxes, id, "sandbox")
        wanted = [
            sandbox
            for sandbox in found
            if (state is None or state == sandbox_state(sandbox)) and has_labels(sandbox.config.labels, labels)
        ]
        return sorted(wanted, key=lambda sandbox: sandbox.record.created_at)

    def list_containers(
        self,
        id: str = "",
        sandbox_id: str = "",
        state: int | None = None,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> list[Container]:
        wanted = [
            container
            for container in self._in_sandbox(id, sandbox_id)
            if (state is None or state == container.life.state.value) and has_labels(container.config.labels, labels)
        ]
        return sorted(wanted, key=lambda container: container.life.created_at)

    def _in_sandbox(self, id: str, sandbox_id: str) -> Iterable[Container]:
        found = _some(self.containers, id, "container")
        if not sandbox_id:
            return found
        owners = _some(self.sandboxes, sandbox_id, "sandbox")
        return [container for container in found if container.sandbox in owners]


def _some(entries: Mapping[str, V], id: str, kind: str) -> Collection[V]:
    """What an id in a filter selects: everything when it is empty, nothing when it is unknown or ambiguous."""
    if not id:
        return entries.values()
    try:
        return [resolve(entries, id, kind)]
    except (NotFound, AmbiguousId):
        return []


def _key(container: Container) -> str:
    return container_key(container.config.metadata, container.sandbox.config.metadata)


def sandbox_state(sandbox: Sandbox) -> pb.PodSandboxState:
    return pb.SANDBOX_READY if sandbox.record.stopped_at == 0 else pb.SANDBOX_NOTREADY


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def running(containers: Iterable[Container]) -> list[Container]:
    return [container for container in containers if container.life.state is State.RUNNING]
