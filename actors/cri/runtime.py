"""What the runtime says of itself: Version, Status, and whether it stamps its statuses. Pure reading of its answers."""

import msgspec

from actors.cri.errors import RuntimeRefused
from protocols.wire import cri_pb2


class RuntimeInfo(msgspec.Struct, frozen=True):
    name: str
    version: str


def read_version(reply: bytes) -> RuntimeInfo:
    """Raises RuntimeRefused when one of the four names is empty, as kubelet does."""
    answer = cri_pb2.VersionResponse.FromString(reply)
    fields = ("version", "runtime_name", "runtime_version", "runtime_api_version")
    missing = [field for field in fields if not getattr(answer, field)]
    if missing:
        raise RuntimeRefused(f"the runtime's Version lacks {', '.join(missing)}; use a runtime that speaks CRI v1")
    return RuntimeInfo(name=answer.runtime_name, version=answer.runtime_version)


def read_status(reply: bytes) -> None:
    """Raises RuntimeRefused when the condition RuntimeReady is missing or false."""
    conditions = {item.type: item for item in cri_pb2.StatusResponse.FromString(reply).status.conditions}
    ready = conditions.get("RuntimeReady")
    if ready is None or not ready.status:
        detail = "no condition RuntimeReady" if ready is None else f"{ready.reason}: {ready.message}"
        raise RuntimeRefused(f"the runtime is not ready ({detail}); look at its log")
