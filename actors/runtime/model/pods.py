"""Everything the runtime knows, in memory: sandboxes, containers, names."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from actors.runtime.model.errors import AmbiguousId, NotFound
from actors.runtime.model.names import Reservations, container_key, resolve, sandbox_key
from actors.runtime.model.states import State
from actors.runtime.model.types import Container, Sandbox
from protocols.wire import cri_pb2 as pb

V = TypeVar("V")

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
