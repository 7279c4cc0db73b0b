"""Errors between pods, devices and plugins. Messages that pods show are kubelet's."""

from typing import ClassVar

import grpc
import grpc.aio

from protocols.errors import NodeplaneError
from protocols.lifecycle.errors import AdmissionRejected


class TopologyAffinity(AdmissionRejected):
    """Raised when the topology policy requires a better placement than the machine has now."""

    details: ClassVar[dict[str, str]] = {"reason": "TopologyAffinityError"}

    def __init__(self) -> None:
        super().__init__("Resources cannot be allocated with Topology locality")


class PlacementFailed(NodeplaneError):
    """Raised when CPUs or memory are not available for a container; admission turns it into AdmissionRejected."""


class PlacementOutdated(NodeplaneError):
    """Raised when the resources a hint was made for were allocated to another pod meanwhile. Retryable."""


class MachineUnreadable(NodeplaneError):
    """Raised when sysfs does not show the CPUs, or reservations name what the machine does not have."""


class PolicyChanged(NodeplaneError):
    """Raised at start when pods hold CPUs or memory under another policy than the configured one."""


class StateFileCorrupt(NodeplaneError):
    """Raised when a kubelet state file is malformed; the file is renamed."""


class AdmissionAborted(NodeplaneError, http=409, grpc="ABORTED"):
    """Raised for a pending admission when its pod is released meanwhile."""


class RegistrationRejected(NodeplaneError, http=400, grpc="UNKNOWN"):
    """Raised when Register names a wrong version, resource or endpoint. The code is kubelet's."""


class RegistrationFailed(NodeplaneError, http=400, grpc="UNKNOWN"):
    """Raised when a plugin found in plugins_registry/ cannot be registered; it is retried."""


class PluginSilent(RegistrationFailed, http=503, grpc="UNKNOWN"):
    """Raised when a socket in plugins_registry/ accepts connections and does not answer on them."""


class PluginUnreachable(NodeplaneError, http=503, grpc="UNKNOWN"):
    """Raised when a plugin's socket does not answer, or its options call fails."""


class PluginFailed(NodeplaneError, http=502, grpc="UNAVAILABLE"):
    """Raised when a call to a registered plugin fails, exceeds its deadline or returns an invalid answer."""

    def __init__(self, message: str, status: str = "OK") -> None:
        """`status` is the gRPC code with which a stream ended."""
        super().__init__(message)
        self.status = status


class PreStartFailed(NodeplaneError, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when a container may not start because its devices are not ready; the same call fails again."""


class TooManyFollowers(NodeplaneError, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised when too many clients wait for the next call of a plugin or driver."""


class CheckpointCorrupt(NodeplaneError):
    """Raised when a checkpoint is corrupt; the file is copied aside."""


class CheckpointNotWritten(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when the checkpoint cannot be written; the change was taken back. Retryable."""


class NotEnoughCpus(PlacementFailed):
    """Raised when a container requests more exclusive CPUs than are free."""

    def __init__(self, requested: int, available: int) -> None:
        super().__init__(f"not enough cpus available to satisfy request: requested={requested}, available={available}")


class SmtAlignment(AdmissionRejected):
    """Raised under full-pcpus-only when a request is not a multiple of a core, or too few whole cores are free."""

    details: ClassVar[dict[str, str]] = {"reason": "SMTAlignmentError"}


class NoMemory(PlacementFailed):
    """Raised when no set of NUMA nodes has the requested memory, or only one that the hint forbids."""

    def __init__(self, why: str) -> None:
        super().__init__(f"[memorymanager] {why}")


def status_of(error: grpc.RpcError) -> tuple[str, str]:
    """Return code and message of an error."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return "UNKNOWN", str(error)
    return error.code().name, error.details() or ""


def describe(error: grpc.RpcError) -> str:
    """Return the text of a gRPC error as Go prints it, in one line."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return str(error)
    details = " ".join((error.details() or "").split())
    return f"rpc error: code = {go_code(error.code())} desc = {details}"


def go_code(code: grpc.StatusCode) -> str:
    """Return a code as Go's gRPC spells it: OK, DeadlineExceeded, and Canceled with one l."""
    if code in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        return "OK" if code is grpc.StatusCode.OK else "Canceled"
    return "".join(word.capitalize() for word in code.name.split("_"))
