"""What the runtime says of itself: Version, Status, and whether it stamps its statuses. Pure reading of its answers."""

from typing import TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from actors.cri.errors import RuntimeRefused
from protocols.wire import cri_pb2

M = TypeVar("M", bound=Message)


class RuntimeInfo(msgspec.Struct, frozen=True):
    name: str
    version: str


def read_version(reply: bytes) -> RuntimeInfo:
    """Raises RuntimeRefused when one of the four names is empty, as kubelet does."""
    answer = _read(cri_pb2.VersionResponse, reply)
    fields = ("version", "runtime_name", "runtime_version", "runtime_api_version")
    missing = [field for field in fields if not getattr(answer, field)]
    if missing:
        raise RuntimeRefused(f"the runtime's Version lacks {', '.join(missing)}; use a runtime that speaks CRI v1")
    return RuntimeInfo(name=answer.runtime_name, version=answer.runtime_version)


def read_status(reply: bytes) -> str:
    """Why pods get no network of their own, empty if they do, in the words upstream's clients know.

    Raises RuntimeRefused when the condition RuntimeReady is missing or false.
    """
    conditions = {item.type: item for item in _read(cri_pb2.StatusResponse, reply).status.conditions}
    ready = conditions.get("RuntimeReady")
    if ready is None or not ready.status:
        detail = "no condition RuntimeReady" if ready is None else f"{ready.reason}: {ready.message}"
        raise RuntimeRefused(f"the runtime is not ready ({detail}); look at its log")
    network = conditions.get("NetworkReady")
    if network is None or network.status:
        return ""
    said = f"NetworkReady=false reason:{network.reason} message:{network.message}"
    return f"container runtime network not ready: {said}"


def _read(kind: type[M], reply: bytes) -> M:
    try:
        return kind.FromString(reply)
    except DecodeError:
        raise RuntimeRefused(f"the runtime's {kind.__name__} is not CRI v1; use a runtime that speaks CRI v1") from None
