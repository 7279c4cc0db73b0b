"""What was told, on disk: so that a next life goes on where this one ends, and clients resume across it."""

import contextlib
from pathlib import Path

import msgspec

from actors.adopt.errors import NotWritten, RecordCorrupt
from protocols.files import set_aside, write_atomic
from protocols.messages.devices import LedgerEvent, PodAllocation
from protocols.sealed import SealBroken, seal, unseal

VERSION = 1
NAME = "adopted.json"


class Record(msgspec.Struct, frozen=True):
    mark: int
    pods: tuple[PodAllocation, ...] = ()
    recent: tuple[LedgerEvent, ...] = ()
    version: int = VERSION


def decode(raw: bytes) -> Record:
    """Raises RecordCorrupt."""
    try:
        record = msgspec.json.decode(unseal(raw), type=Record)
    except (SealBroken, msgspec.DecodeError) as error:
        raise RecordCorrupt(str(error)) from None
    if record.version != VERSION:
        raise RecordCorrupt(f"it has version {record.version}, this program reads {VERSION}")
    return record


class RecordFile:
    """Its methods block: call them in a thread once the loop runs."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def load(self) -> tuple[Record | None, str]:
        """None when there is none that can be used; and a line to tell when there was one."""
        try:
            return decode(self.path.read_bytes()), ""
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return None, f"cannot read {self.path}: {error.strerror}; positions begin anew"
        except RecordCorrupt as error:
            with contextlib.suppress(OSError):
                set_aside(self.path)
            return (
                None,
                f"{self.path} is corrupt: {error}; it is kept as {self.path.name}.corrupt, positions begin anew",
            )

    def save(self, record: Record) -> str:
        """A line to tell when the disk refuses. Then nothing is left of it: positions that are told from now on must
        never be met by another life with other events. Raises NotWritten when not even that can be had."""
        try:
            write_atomic(self.path, seal(msgspec.json.encode(record)))
        except OSError as error:
            self._forget(error.strerror or str(error))
            return f"cannot write {self.path}: {error.strerror}; a restart of adopt would begin with new positions"
        return ""

    def _forget(self, why: str) -> None:
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            raise NotWritten(f"cannot write {self.path}: {why}; nothing is told until it can be written") from None
