"""Dependencies of pod workers, as protocols: the actor passes clients of the bus and the API, tests pass fakes."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from actors.podworker.model.probe_metrics import ProbeMetrics
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.runtime_status import ordered_ips
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.messages.devices import AdmitPod, AdmittedPod, PrepareClaims
from protocols.messages.health import PodHeld
from protocols.messages.pleg import PodStatus
from protocols.node.sysctls import SysctlAllowlist
from protocols.wire import cri_pb2


class Runtime(Protocol):
    """The container runtime through `cri`. Every method raises BusError."""

    async def run_sandbox(self, config: "cri_pb2.PodSandboxConfig", handler: str) -> str:
        """Return the sandbox id. `handler`: runtime handler; empty for the default."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None: ...

    async def remove_sandbox(self, sandbox_id: str) -> None: ...

    async def sandbox_ips(self, sandbox_id: str) -> tuple[str, ...]: ...

    async def create_container(
        self, sandbox_id: str, config: "cri_pb2.ContainerConfig", sandbox: "cri_pb2.PodSandboxConfig"
    ) -> str: ...

    async def start_container(self, container_id: str) -> None: ...

    async def stop_container(self, container_id: str, grace: int) -> None: ...

    async def exec_sync(self, container_id: str, command: list[str], timeout: int) -> tuple[int, bytes]:
        """Return exit code and output. Raises DeadlineExceeded when the command does not end in time."""
        ...

    async def reopen_log(self, container_id: str) -> None:
        """Let the runtime write to a new log file after the old one was renamed."""
        ...

    async def remove_container(self, container_id: str) -> None: ...

    async def set_cpus(self, container_id: str, cpus: str) -> None: ...

    async def resize(self, container_id: str, resources: "cri_pb2.LinuxContainerResources") -> None:
        """Set CPU and memory of a running container."""
        ...

    async def memory_used(self, container_id: str) -> int:
        """Return the bytes that a container uses; 0 if the runtime does not know."""
        ...

    async def image(self, name: str, volume: bool = False) -> "ImageFound | None":
        """Return None if the runtime has no image of that name; with `volume`, none with files of its own."""
        ...

    async def pull_image(self, pull: "ImagePull", auth: "cri_pb2.AuthConfig | None" = None) -> str: ...

    async def recursive_read_only(self, handler: str) -> bool:
        """Return True if the runtime handler reports the feature."""
        ...


class ImageFound(msgspec.Struct, frozen=True):
    """An image that the runtime has."""

    id: str
    """Identifier of the image in the runtime."""
    uid: int = 0
    username: str = ""
    """Default user of the image: `uid` if it is a number, else a name whose number is not known."""
    size: int = 0
    """Bytes."""


class ImagePull(NamedTuple):
    """An image to pull, and the sandbox of its pod: a runtime may have snapshotters and policies for some pods only."""

    image: str
    sandbox: "cri_pb2.PodSandboxConfig"
    volume: bool = False


class Pleg(Protocol):
    """Runtime status of pods: the stream, and requests for a newer one."""

    def known(self, uid: str) -> PodStatus | None:
        """Return the last status on the stream."""
        ...

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        """Return a status newer than `min_ns`. Raises BusError when there is none in time."""
        ...

    def evented(self) -> bool:
        """Return True while the stream follows the runtime's events."""
        ...


class DeviceManagerClient(Protocol):
    """Requests to the device manager. All raise BusError."""

    async def admit(self, request: AdmitPod) -> AdmittedPod:
        """Raises FailedPrecondition on rejection, other BusErrors when the call is to be retried."""
        ...

    async def release(self, uid: str) -> None: ...

    async def pre_start(self, uid: str, container: str, resources: tuple[str, ...]) -> None: ...

    async def prepare(self, request: PrepareClaims) -> dict[str, tuple[str, ...]]:
        """Return CDI names by container.

        Raises BusError; NotFound if `renew` is off and not all claims are prepared.
        """
        ...

    async def unprepare(self, uid: str) -> None:
        """Release all claims of a pod, if any. Raises BusError until all drivers have unprepared them."""
        ...

    def shared(self) -> str:
        """Return the CPU list of containers without exclusive CPUs; empty if nothing is pinned."""
        ...


class Statuses(Protocol):
    """The status manager: the latest status wins, and is delivered across outages of the API."""

    def publish(self, spec: PodSpec, status: views.PodStatus, reported_ns: int = 0) -> None:
        """Set the desired status.

        `reported_ns`: time of a device health report that this status is the first to show.
        """
        ...

    def settled(self, uid: str) -> bool:
        """Return True if the API shows the latest status, or the pod is gone."""
        ...

    def overwritten(self, spec: PodSpec) -> bool:
        """Return True if another writer changed the status: the API's, in `spec`, is not the one published last."""
        ...

    async def wait_settled(self, uid: str, seconds: float) -> None:
        """Wait up to `seconds` for the latest status to reach the API."""
        ...

    def repeat_lost(self, spec: PodSpec) -> None:
        """Send the latest status again if `spec`, from the API's watch, lacks what the API acknowledged."""
        ...

    def forget(self, uid: str) -> None: ...


class PodDeleter(Protocol):
    """Deletes pods that have ended from the API."""

    async def delete(self, spec: PodSpec) -> None:
        """Delete the pod for good. No error if it is gone or its name belongs to another uid."""
        ...


class ObjectReader(Protocol):
    """Reads objects that pods of this node refer to, with the node's identity."""

    async def read(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return an object of one of clients.api.OBJECTS, None if it does not exist.

        Raises NodeplaneError on failure.
        """
        ...

    async def token(self, spec: PodSpec, audience: str, seconds: int) -> tuple[str, float]:
        """Return a service account token bound to the pod, and its lifetime in seconds."""
        ...


class PodEventRecorder(Protocol):
    """Records events of pods."""

    def pod(self, spec: PodSpec, kind: str, reason: str, message: str, container: ContainerSpec | None = None) -> None:
        """Record an event about a pod. `kind`: Normal or Warning. Never blocks."""
        ...


class DeviceHealth(Protocol):
    """Devices that pods hold, and the state of their health reports."""

    @property
    def enabled(self) -> bool:
        """Feature gate ResourceHealthStatus: statuses show device health."""
        ...

    @property
    def synced(self) -> bool:
        """Health has reported all pods once; until then statuses retain what they showed."""
        ...

    async def held(self, uid: str, admitted: bool) -> PodHeld:
        """Return what the pod holds; empty once its devices are free.

        Waits a moment for the allocation of a pod `admitted` by this process. Raises BusError while allocations are
        unknown.
        """
        ...

    def publish_ended(self, spec: PodSpec, held: PodHeld) -> None:
        """Publish that the pod has ended and what it had held; with empty `held`, that it is removed."""
        ...


class ImagePulls(Protocol):
    """Records of pulled images, see containers.pull_records. Its writing methods raise OSError."""

    def is_restricted(self, image: str, id: str) -> bool: ...

    def may_use(self, image: str, id: str, known: "Iterable[cri_pb2.AuthConfig]") -> bool: ...

    async def begin(self, image: str) -> None: ...

    async def failed(self, image: str) -> None: ...

    async def succeeded(self, image: str, id: str, auth: "cri_pb2.AuthConfig | None") -> None: ...


class LocalNode(Protocol):
    """The Node object of this node."""

    def node(self) -> views.Node:
        """Return the object as the API showed it last; before it is registered, as it will be."""
        ...

    def advertised(self) -> frozenset[str]:
        """Return the extended resources of the node that no device plugin provides."""
        ...

    async def refresh(self) -> None:
        """Read the object again. Raises NodeplaneError, OSError, TimeoutError."""
        ...


class NodeFields(msgspec.Struct, frozen=True):
    """Node fields of the downward API."""

    name: str
    host_ip: str = ""
    pod_ips: tuple[str, ...] = ()
    cpus: int = 1
    memory: int = 0
    storage: int = 0
    """Bytes of memory and disk of the machine."""
    allocatable: Mapping[str, str] = {}
    """Quantities for all pods together, which are the limits of a container without own limits."""


class Address(msgspec.Struct, frozen=True):
    """Address of the API server as seen from this node; an empty host means unknown."""

    host: str = ""
    port: int = 0


class NodeInfo(msgspec.Struct, frozen=True):
    """Facts about this node that are constant while this process runs."""

    node_name: str
    root: Path
    logs: Path
    host_ip: str
    embedded: bool = True
    """The embedded runtime is used: images need no pull."""
    cpus: int = 1
    memory: int = 0
    storage: int = 0
    """Bytes of memory and disk."""
    api: Address = Address()
    root_user: bool = False
    """This process runs as root: the embedded runtime enforces more."""
    sysctls: SysctlAllowlist = SysctlAllowlist()
    page_sizes: tuple[int, ...] = ()
    """Bytes of the huge pages that another runtime than the embedded one limits."""
    oom_group: bool = False
    """Such a runtime can let the kernel end all processes of a container that exceeds its memory."""

    def node(self, pod_ips: tuple[str, ...] = ()) -> NodeFields:
        ips = ordered_ips(pod_ips, self.host_ip)
        return NodeFields(self.node_name, self.host_ip, ips, self.cpus, self.memory, self.storage)


class Dependencies(msgspec.Struct, frozen=True):
    """Parts that the workers of all pods share."""

    runtime: Runtime
    pleg: Pleg
    devices: DeviceManagerClient
    statuses: Statuses
    pods: PodDeleter
    objects: ObjectReader
    recorder: PodEventRecorder
    health: DeviceHealth
    node_info: NodeInfo
    local_node: LocalNode
    probes: ProbeMetrics
    pulls: ImagePulls
    services: Callable[[], Iterable[views.Service]] = tuple
    network: Callable[[], str] = lambda: ""
    """Return the reason why pods get no network of their own; empty if they do."""
    recursive: Callable[[str], bool] = lambda runtime_class: False
    """Return True if pods of this RuntimeClass (empty: none) can have recursive read-only mounts."""

    def node_fields(self, pod_ips: tuple[str, ...] = ()) -> NodeFields:
        """Return the fields of the node for a pod with these addresses."""
        allocatable = (self.local_node.node().get("status") or {}).get("allocatable") or {}
        return msgspec.structs.replace(self.node_info.node(pod_ips), allocatable=allocatable)
