"""Dependencies of pod workers, as protocols: the actor passes clients of the bus and the API, tests pass fakes."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from actors.podworker.model.types import ContainerSpec, Object, PodSpec
from protocols.messages.devices import AdmitPod, AdmittedPod, PrepareClaims
from protocols.messages.held import PodHeld
from protocols.messages.pleg import PodStatus
from protocols.wire import cri_pb2


class Runtime(Protocol):
    """The container runtime through `cri`. Every method raises BusError."""

    async def run_sandbox(self, config: "cri_pb2.PodSandboxConfig", handler: str) -> str:
        """`handler`: by which of the runtime's ways to run pods; empty: its usual one."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None: ...

    async def remove_sandbox(self, sandbox_id: str) -> None: ...

    async def sandbox_ip(self, sandbox_id: str) -> str: ...

    async def create_container(
        self, sandbox_id: str, config: "cri_pb2.ContainerConfig", sandbox: "cri_pb2.PodSandboxConfig"
    ) -> str: ...

    async def start_container(self, container_id: str) -> None: ...

    async def stop_container(self, container_id: str, grace: int) -> None: ...

    async def exec_sync(self, container_id: str, command: list[str], timeout: int) -> tuple[int, bytes]:
        """Exit code and output. Raises DeadlineExceeded when it did not end in time."""
        ...

    async def reopen_log(self, container_id: str) -> None:
        """Its log file was renamed: write to a new one."""
        ...

    async def remove_container(self, container_id: str) -> None: ...

    async def set_cpus(self, container_id: str, cpus: str) -> None:
        """The CPU list a container is kept to from now on."""
        ...

    async def resize(self, container_id: str, resources: "cri_pb2.LinuxContainerResources") -> None:
        """CPU and memory of a container that runs."""
        ...

    async def image(self, name: str) -> "ImageFound | None":
        """None when the runtime has none of that name."""
        ...

    async def pull_image(self, image: str, auth: "cri_pb2.AuthConfig | None" = None) -> str: ...


class ImageFound(msgspec.Struct, frozen=True):
    """An image the runtime has."""

    id: str
    """What the runtime calls it."""
    uid: int = 0
    username: str = ""
    """The user it runs as unless the pod says otherwise: a number, or a name the number of which is not known."""


class Pleg(Protocol):
    def known(self, uid: str) -> PodStatus | None:
        """Last status on the stream."""
        ...

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        """Raises BusError when nothing newer becomes known in time."""
        ...


class Devices(Protocol):
    async def admit(self, request: AdmitPod) -> AdmittedPod:
        """Raises FailedPrecondition when refused, other BusErrors when it is to be tried again."""
        ...

    async def release(self, uid: str) -> None: ...

    async def pre_start(self, uid: str, container: str, resources: tuple[str, ...]) -> None: ...

    async def prepare(self, request: PrepareClaims) -> dict[str, tuple[str, ...]]:
        """CDI names by container. Raises BusError: NotFound when only what is prepared was asked for and it is not."""
        ...

    async def unprepare(self, uid: str) -> None:
        """Quiet when the pod has no claims. Raises BusError while a driver does not let go."""
        ...

    def shared(self) -> str:
        """CPU list of containers without CPUs of their own; empty when nobody is kept to any."""
        ...


class Statuses(Protocol):
    """The status manager: latest wins, in order, through outages of the API."""

    def publish(self, spec: PodSpec, status: Object, reported_ns: int = 0) -> None:
        """`reported_ns`: when a report of a device was heard that this status is the first to show; 0 = none."""
        ...

    def settled(self, uid: str) -> bool:
        """The API shows the status published last (or has no such pod any more)."""
        ...

    def overwritten(self, spec: PodSpec) -> bool:
        """Somebody else wrote into the status since: the API, as `spec` has it, shows another than the one published
        last."""
        ...

    async def wait_settled(self, uid: str, seconds: float) -> None:
        """Give the status published last so long to reach the API."""
        ...

    def forget(self, uid: str) -> None: ...


class Pods(Protocol):
    async def delete(self, spec: PodSpec) -> None:
        """The final API delete; quiet when the pod is gone or another one bears its name."""
        ...


class Objects(Protocol):
    """What pods of this node refer to, read from the API with the node's identity."""

    async def read(self, kind: str, namespace: str, name: str) -> Object | None:
        """One of links.deps.OBJECTS; None: there is none. Raises NodeplaneError when that cannot be told."""
        ...

    async def token(self, spec: PodSpec, audience: str, seconds: int) -> tuple[str, float]:
        """A token of the pod's service account, bound to the pod, and the seconds it is good for."""
        ...


class Recorder(Protocol):
    def pod(self, spec: PodSpec, kind: str, reason: str, message: str, container: ContainerSpec | None = None) -> None:
        """`kind`: Normal or Warning. Never blocks."""
        ...


class DeviceHealth(Protocol):
    """What pods hold, and whether their statuses can tell how it is."""

    @property
    def enabled(self) -> bool:
        """Statuses tell of devices at all: the feature gate ResourceHealthStatus."""
        ...

    @property
    def synced(self) -> bool:
        """Health has told how things are; until then a status keeps what it showed."""
        ...

    async def held(self, uid: str, admitted: bool) -> PodHeld:
        """Nothing once its devices are free. Raises BusError while it was not heard who holds what; of a pod that was
        `admitted` in this life and is not told of, that is waited for a little."""
        ...

    def publish_ended(self, spec: PodSpec, held: PodHeld) -> None:
        """The pod is over and had `held`; nothing: it is done with."""
        ...


class Node(msgspec.Struct, frozen=True):
    """What the downward API can say of where the pod runs."""

    name: str
    host_ip: str = ""
    pod_ip: str = ""
    cpus: int = 1
    memory: int = 0
    storage: int = 0
    """Bytes of memory and disk: a container without a limit may use all of it."""


class Address(msgspec.Struct, frozen=True):
    """Where the API answers, as this node reaches it; of no host: it is not known."""

    host: str = ""
    port: int = 0


class NodeInfo(msgspec.Struct, frozen=True):
    """Where this node is: constant for a process's life."""

    node_name: str
    root: Path
    logs: Path
    host_ip: str
    embedded: bool = True
    """The embedded runtime: images need no pull."""
    cpus: int = 1
    memory: int = 0
    storage: int = 0
    """Bytes of memory and disk."""
    api: Address = Address()
    root_user: bool = False
    """The plane runs as root: the embedded runtime can do more."""

    def node(self, pod_ip: str = "") -> Node:
        return Node(self.node_name, self.host_ip, pod_ip, self.cpus, self.memory, self.storage)


class Dependencies(msgspec.Struct, frozen=True):
    runtime: Runtime
    pleg: Pleg
    devices: Devices
    statuses: Statuses
    pods: Pods
    objects: Objects
    recorder: Recorder
    health: DeviceHealth
    node_info: NodeInfo
    services: Callable[[], Iterable[Object]] = tuple
    """All services the API has, as far as they are known."""
    network: Callable[[], str] = lambda: ""
    """Why pods get no network of their own; empty: they do."""
