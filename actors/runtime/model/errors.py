"""Errors of the embedded runtime, each with the gRPC code a CRI client gets."""

from protocols.errors import NodeplaneError


class RuntimeFault(NodeplaneError):
    """Base of all errors of the runtime."""


class NotFound(RuntimeFault, http=404, grpc="NOT_FOUND"):
    """Raised when no sandbox, container or image has the id, prefix or name."""


class AmbiguousId(RuntimeFault, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when an id is a prefix of several ids."""


class InvalidRequest(RuntimeFault, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when a request lacks a field, contradicts itself or does not decode."""


class CdiUnusable(RuntimeFault, http=400, grpc="UNKNOWN"):
    """Raised when no CDI file describes a requested device, or its edits are not supported."""


class NameReserved(RuntimeFault, http=409, grpc="ALREADY_EXISTS"):
    """Raised when a sandbox or container that was not removed has the name of a new one."""


class WrongState(RuntimeFault, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when the state does not allow an operation, e.g. the start of a container that has run."""


class StartFailed(RuntimeFault, grpc="UNKNOWN"):
    """Raised when a container's program could not be executed; the container is then exited: 128, StartError."""


class HostPathAway(RuntimeFault, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised when the file system of a mounted host path does not answer; the container can be created later."""


class ExecFailed(RuntimeFault, grpc="UNKNOWN"):
    """Raised when a command could not be executed in a container, or the container ended meanwhile."""


class ExecTimedOut(RuntimeFault, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised when a command ran longer than its timeout; its process group has been killed."""


class StopTimedOut(RuntimeFault, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised when a container did not end although its processes were killed."""


class StateNotWritten(RuntimeFault, http=507, grpc="RESOURCE_EXHAUSTED"):
    """Raised when the state directory or a log cannot be written; nothing has changed."""


class LauncherGone(RuntimeFault, http=503, grpc="UNAVAILABLE"):
    """Raised when the launcher process cannot be started or does not answer; callers may retry."""


class TooManyTickets(RuntimeFault, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Raised when too many requested streams have not been opened yet."""


class ShuttingDown(RuntimeFault, http=503, grpc="UNAVAILABLE"):
    """Raised for a start after `nodeplane down` began to stop the containers."""


class SubscriberTooSlow(RuntimeFault, http=429, grpc="RESOURCE_EXHAUSTED"):
    """Ends an event stream whose client read too slowly; it has lost events and must list again."""


class NotSupported(RuntimeFault, http=501, grpc="UNIMPLEMENTED"):
    """Raised for a CRI method that this runtime does not implement."""


class ImageUnusable(RuntimeFault, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when an import is no image, or not for this machine; nothing has changed."""


class ImageTooLarge(ImageUnusable, http=413, grpc="RESOURCE_EXHAUSTED"):
    """Raised when an import exceeds a bound; nothing of it is left."""


class ImageInUse(RuntimeFault, http=409, grpc="FAILED_PRECONDITION"):
    """Raised for the removal of an image that a container uses."""


class SocketTaken(RuntimeFault):
    """Raised at start when the path of the runtime's socket cannot be used."""
