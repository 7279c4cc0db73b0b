"""Everything that can go wrong between pods, devices and their plugins."""

from typing import ClassVar

import grpc
import grpc.aio

from protocols.errors import NodeplaneError


class AdmissionRefused(NodeplaneError):
    """Raised when a pod cannot have the devices it asks for; final for that pod, nothing of it stays allocated."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"
    details: ClassVar[dict[str, str]] = {"reason": "UnexpectedAdmissionError"}


class TopologyAffinity(AdmissionRefused):
    """Raised when the topology policy wants a better placement than the machine has now."""

    details: ClassVar[dict[str, str]] = {"reason": "TopologyAffinityError"}

    def __init__(self) -> None:
        super().__init__("Resources cannot be allocated with Topology locality")


class CannotPlace(NodeplaneError):
    """Raised when CPUs or memory for a container are not to be had; admission makes a refusal of it."""


class Overtaken(NodeplaneError):
    """Raised when what a hint was made for went to another pod meanwhile: look for another place."""


class MachineUnreadable(NodeplaneError):
    """Raised when sysfs does not tell what CPUs there are, or reservations name what the machine does not have."""


class PolicyChanged(NodeplaneError):
    """Raised at start when pods still hold what another policy than the configured one gave them."""


class StateFileCorrupt(NodeplaneError):
    """Raised when a state file's bytes are not what a kubelet or this manager writes; it is kept aside."""


class NotEnoughResource(NodeplaneError):
    """Raised when a pod asks for a resource whose plugin left so long ago that the node shows none of it any more."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"

    def __init__(self, resource: str, requested: int) -> None:
        super().__init__(f"Node didn't have enough resource: {resource}, requested: {requested}, used: 0, capacity: 0")
        self.details = {"reason": f"OutOf{resource}"}


class AdmissionAborted(NodeplaneError):
    """Raised to whoever waits for an admission when its pod is released meanwhile."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class RegistrationRefused(NodeplaneError):
    """Raised when a plugin's Register call names a wrong version, resource or endpoint. Code UNKNOWN as kubelet's."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "UNKNOWN"


class RegistrationFailed(NodeplaneError):
    """Raised when a plugin found in plugins_registry/ cannot be taken in; tried again after a while."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "UNKNOWN"


class PluginUnreachable(NodeplaneError):
    """Raised when a plugin's socket does not answer, or answers its options call with an error."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNKNOWN"


class PluginFailed(NodeplaneError):
    """Raised when a call to a registered plugin fails, exceeds its deadline or answers nonsense."""

    http: ClassVar[int] = 502
    grpc: ClassVar[str] = "UNAVAILABLE"


class DevicesTaken(NodeplaneError):
    """Raised when a reservation names a device that another pod holds: a fault of ours, never of a client's."""


class UnknownDevice(NodeplaneError):
    """Raised when an order names a device that no plugin has reported."""

    http: ClassVar[int] = 404
    grpc: ClassVar[str] = "NOT_FOUND"


class InvalidHealth(NodeplaneError):
    """Raised when a chaos order asks for a health that does not exist."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class CheckpointCorrupt(NodeplaneError):
    """Raised when the checkpoint's bytes are not what was written; the file is kept aside, the state begins anew."""


class CheckpointNotWritten(NodeplaneError):
    """Raised when the disk refuses the checkpoint: what was to be acknowledged is taken back. Worth a retry."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class NotEnoughCpus(CannotPlace):
    """Raised when a container asks for more exclusive CPUs than are free."""

    def __init__(self, requested: int, available: int) -> None:
        super().__init__(f"not enough cpus available to satisfy request: requested={requested}, available={available}")


class SmtAlignment(AdmissionRefused):
    """Raised under full-pcpus-only when a request is no multiple of a core, or too few whole cores are free."""

    details: ClassVar[dict[str, str]] = {"reason": "SMTAlignmentError"}


class NoMemory(CannotPlace):
    """Raised when no set of NUMA nodes has what a container asks for, or only one its hint forbids."""

    def __init__(self, why: str) -> None:
        super().__init__(f"[memorymanager] {why}")


def describe(error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.aio.AioRpcError):
        return str(error)
    details = " ".join((error.details() or "").split())
    return f"rpc error: code = {error.code().name} desc = {details}"
