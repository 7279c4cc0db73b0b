"""Journal of simulated containers: one append-only file, so that a change costs one write, whatever their number.

It survives kill -9, but not the loss of power. A failed write is truncated, and an incomplete last line is dropped when
the file is read.
"""

import contextlib
import logging
import os
from pathlib import Path

import msgspec

from actors.runtime.model.containers import ContainerRecord, Life
from protocols.process.files import UNREADABLE, open_regular

SLACK = 4 << 20
"""Bytes of outdated lines before the file is rewritten."""

_LOG = logging.getLogger("runtime")


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change: the whole record, its life alone, or neither for a removal."""

    id: str
    record: ContainerRecord | None = None
    life: Life | None = None


class Journal:
    """Records by id. Methods raise OSError and then have changed nothing. Use from one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[str, ContainerRecord] = {}
        self._encode = msgspec.json.Encoder().encode
        self._size = 0
        self._limit = SLACK
        self._file = -1

    def load(self) -> list[ContainerRecord]:
        """Return all records, and rewrite the file without outdated lines."""
        with contextlib.suppress(FileNotFoundError), open_regular(self._path) as file:
            self._replay(file.read())
        self._rewrite()
        return list(self._records.values())

    def write(self, record: ContainerRecord) -> None:
        known = self._records.get(record.id)
        if known is not None and known.config is record.config:
            self._append(JournalEntry(record.id, life=record.life))
        else:
            self._append(JournalEntry(record.id, record=record))
        self._records[record.id] = record
        if self._size > self._limit:
            self._shorten()

    def remove(self, id: str) -> None:
        if id in self._records:
            self._append(JournalEntry(id))
            del self._records[id]

    def _replay(self, data: bytes) -> None:
        whole, _, _ = data.rpartition(b"\n")
        for text in whole.splitlines():
            try:
                self._take(msgspec.json.decode(text, type=JournalEntry))
            except (*UNREADABLE, KeyError) as error:
                _LOG.error("journal line skipped path=%s error=%s", self._path, error)

    def _take(self, line: JournalEntry) -> None:
        if line.record is not None:
            self._records[line.id] = line.record
        elif line.life is not None:
            self._records[line.id] = msgspec.structs.replace(self._records[line.id], life=line.life)
        else:
            self._records.pop(line.id, None)

    def _append(self, line: JournalEntry) -> None:
        data = self._encode(line) + b"\n"
        if self._file < 0:
            self._rewrite()
        try:
            written = os.write(self._file, data)
            if written != len(data):
                raise OSError(28, "no space left on device")
        except OSError:
            self._truncate()
            raise
        self._size += written

    def _truncate(self) -> None:
        """Drop a part of a line; if that fails, the next change writes a new file, or it would join that part."""
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            os.close(self._file)
            self._file = -1

    def _shorten(self) -> None:
        """Rewrite the file if there is room for it; the change that made it long is on disk already."""
        try:
            self._rewrite()
        except OSError:
            self._limit += SLACK

    def _rewrite(self) -> None:
        """Rewrite the file without outdated lines; the old file stays until the new one is complete."""
        data = b"".join(self._encode(JournalEntry(item.id, record=item)) + b"\n" for item in self._records.values())
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "wb", closefd=False) as out:
                out.write(data)
            os.rename(temporary, self._path)
        except OSError:
            os.close(file)
            temporary.unlink(missing_ok=True)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size, self._limit = file, len(data), 2 * len(data) + SLACK
