"""State directory: one JSON file per sandbox and container, a journal of simulated ones, one directory per shim."""

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from actors.runtime.model.containers import ContainerRecord, SandboxRecord
from actors.runtime.model.errors import StateNotWritten
from actors.runtime.state.journal import Journal
from protocols.process.files import UNREADABLE, make_directory, read_state, sweep_once, sync_directory, write_atomic

Record = TypeVar("Record", SandboxRecord, ContainerRecord)

_LOG = logging.getLogger("runtime")


class StateDirectory:
    """Methods take a system call or two; call those that sync in a thread."""

    def __init__(self, root: Path) -> None:
        self._sandboxes = root / "sandboxes"
        self._containers = root / "containers"
        self._shims = root / "shims"
        for directory in (root, self._sandboxes, self._containers, self._shims):
            make_directory(directory, 0o700)
            sweep_once(directory)
        root.chmod(0o700)
        self._journal = Journal(root / "hollow.journal")

    def shim(self, container: str) -> Path:
        return self._shims / container

    def shims(self) -> list[str]:
        return os.listdir(self._shims)

    def load(self) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
        """Read all records. A file that does not decode is logged and skipped."""
        filed = {record.id: record for record in _load(self._containers, ContainerRecord)}
        containers = list((filed | {record.id: record for record in self._journal.load()}).values())
        return _load(self._sandboxes, SandboxRecord), containers

    def save(self, record: SandboxRecord | ContainerRecord, durable: bool = True) -> None:
        """Replace the record's file. Without `durable` it survives kill -9, but not the loss of power."""
        try:
            data = msgspec.json.encode(record)
            if durable:
                write_atomic(self._path(record), data)
            else:
                _replace(self._path(record), data)
        except OSError as error:
            raise _not_written(self._path(record).parent, error) from None

    def remove(self, record: SandboxRecord | ContainerRecord) -> None:
        try:
            self._path(record).unlink(missing_ok=True)
            sync_directory(self._path(record).parent)
        except OSError as error:
            raise StateNotWritten(f"cannot remove {self._path(record)}: {error.strerror}") from None

    def save_hollow(self, record: ContainerRecord) -> None:
        """Save the record of a simulated container; it survives kill -9, but not the loss of power."""
        try:
            self._journal.write(record)
        except OSError as error:
            raise _not_written(self._containers.parent, error) from None

    def forget(self, record: ContainerRecord) -> None:
        """Remove a container without a sync. A simulated one has a file only if an older version wrote it."""
        try:
            self._journal.remove(record.id)
            self._path(record).unlink(missing_ok=True)
        except OSError as error:
            raise StateNotWritten(f"cannot remove container {record.id}: {error.strerror}") from None

    def remove_shim(self, container: str) -> None:
        shutil.rmtree(self.shim(container), ignore_errors=True)

    def _path(self, record: SandboxRecord | ContainerRecord) -> Path:
        directory = self._sandboxes if isinstance(record, SandboxRecord) else self._containers
        return directory / f"{record.id}.json"


def _replace(path: Path, data: bytes) -> None:
    temporary = f"{path.parent}/.{path.name}.now.{os.getpid()}.tmp"  # a thread may write another beside it
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    os.rename(temporary, path)


def _not_written(directory: Path, error: OSError) -> StateNotWritten:
    return StateNotWritten(f"cannot write the runtime's state {directory}: {os.strerror(error.errno or 0).lower()}")


def _load(directory: Path, kind: type[Record]) -> list[Record]:
    records = []
    for path in directory.iterdir():
        if path.suffix != ".json" or path.name.startswith("."):
            with suppress(OSError):
                path.unlink()  # left by an interrupted write
            continue
        try:
            record = msgspec.json.decode(read_state(path), type=kind)
        except (OSError, *UNREADABLE) as error:
            _LOG.error("state file skipped path=%s error=%s", path, error)
            continue
        if record.id == path.stem:
            records.append(record)
        else:
            _LOG.error("state file skipped, remove it: it has another id path=%s id=%s", path, record.id)
    return records
