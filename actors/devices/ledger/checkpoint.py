"""The device manager's memory on disk: one JSON file with a checksum, replaced as a whole.

`mark` numbers every change of an allocation, for ever. A state that begins anew counts from a greater number, taken
from the clock, so positions of the old one are never met again.
"""

import hashlib
import os
import time
from pathlib import Path

import msgspec

from actors.devices.errors import CheckpointCorrupt
from actors.devices.types import DeviceKey, PodRecord
from protocols.files import sweep_once, sync_directory, write_atomic
from protocols.messages.devices import LedgerEvent, first_mark

VERSION = 1


class Override(msgspec.Struct, frozen=True):
    resource: str
    id: str
    health: str


class State(msgspec.Struct, frozen=True):
    """Everything that outlives the process."""

    version: int = VERSION
    mark: int = 0
    pods: tuple[PodRecord, ...] = ()
    recent: tuple[LedgerEvent, ...] = ()
    """The newest events, so that nobody who follows them has to start again because of us."""
    overrides: tuple[Override, ...] = ()
    resources: tuple[str, ...] = ()
    """Every resource ever registered: the node's capacity keeps their keys."""

    def forced(self) -> dict[DeviceKey, str]:
        return {DeviceKey(item.resource, item.id): item.health for item in self.overrides}


class Envelope(msgspec.Struct, frozen=True):
    checksum: str
    """sha256 of `data` as it stands in the file."""
    data: msgspec.Raw


def fresh() -> State:
    """An empty state with a lineage of its own."""
    return State(mark=first_mark(time.time_ns()))


def encode(state: State) -> bytes:
    data = msgspec.json.encode(state)
    return msgspec.json.encode(Envelope(checksum=hashlib.sha256(data).hexdigest(), data=msgspec.Raw(data))) + b"\n"


def decode(raw: bytes) -> State:
    """The inverse of encode; raises CheckpointCorrupt."""
    try:
        envelope = msgspec.json.decode(raw, type=Envelope)
        if hashlib.sha256(bytes(envelope.data)).hexdigest() != envelope.checksum:
            raise CheckpointCorrupt("its checksum does not match")
        state = msgspec.json.decode(envelope.data, type=State)
    except msgspec.DecodeError as error:
        raise CheckpointCorrupt(str(error)) from None
    if state.version != VERSION:
        raise CheckpointCorrupt(f"it has version {state.version}, this program reads {VERSION}")
    return state


class CheckpointFile:
    """The file itself. Its methods block: call them in a thread once the loop runs."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "checkpoint.json"

    def load(self) -> tuple[State, str]:
        """The state, and a line to log when the file was unusable and is kept aside."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep_once(self.path.parent)
        try:
            return decode(self.path.read_bytes()), ""
        except FileNotFoundError:
            return fresh(), ""
        except CheckpointCorrupt as error:
            return fresh(), f"checkpoint {self.path} is corrupt: {error}; kept as {self._quarantine()}, starting empty"

    def save(self, raw: bytes) -> None:
        write_atomic(self.path, raw, mode=0o600)

    def _quarantine(self) -> Path:
        aside = self.path.with_name(f"{self.path.name}.corrupt")
        os.replace(self.path, aside)
        sync_directory(aside.parent)
        return aside
