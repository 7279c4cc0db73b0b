"""Read history from the file: keys at an old revision, changes since one, and hashes."""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.store.file.rows import COLUMNS, NUMBERS, Row, first_id, read_row
from actors.store.model.types import FOREVER, SUB_BITS, KeyChange
from protocols.etcd.types import KeyValue

AT = "SELECT key, max(id), version FROM log WHERE {range} AND id < ? GROUP BY key"
ROW = f"SELECT {COLUMNS} FROM log WHERE id = ?"
SINCE = f"SELECT {COLUMNS} FROM log WHERE id >= ? AND id < ? AND {{range}} ORDER BY id LIMIT ?"
READ_BYTES = 8 * 1024 * 1024
"""Bytes of values read at a time for a watcher that is behind, without their previous values."""
BEFORE = f"SELECT {COLUMNS} FROM log WHERE key = ? AND id < ? ORDER BY id DESC LIMIT 1"


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write and therefore never checkpoints."""
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    reader.execute("PRAGMA query_only = ON")
    return reader


class PastView:
    """Keys at one past revision; a View for Range."""

    def __init__(self, db: sqlite3.Connection, revision: int) -> None:
        self._db = db
        self._before = first_id(revision + 1)
        self._rows: dict[bytes, int] = {}

    def keys(self, start: bytes, end: bytes) -> list[bytes]:
        where, values = _range(start, end)
        cursor = self._db.execute(AT.format(range=where), (*values, self._before))
        self._rows = {key: row for key, row, version in cursor if version}
        return list(self._rows)

    def get(self, key: bytes) -> KeyValue | None:
        row = self._rows.get(key)
        return read_row(self._db.execute(ROW, (row,)).fetchone()) if row is not None else None


def changes_since(
    db: sqlite3.Connection, start: bytes, end: bytes, first: int, last: int, limit: int
) -> tuple[list[KeyChange], int]:
    """Return changes of a range in revisions first..last, and the revision up to which they are complete.

    At about `limit` changes or READ_BYTES it stops, after a whole revision.
    """
    where, values = _range(start, end)
    query = SINCE.format(range=where)
    rows, ended = _fetch(db.execute(query, (first_id(first), first_id(last + 1), *values, limit)), limit)
    if ended:
        return list(_with_previous(db, rows)), last
    cut = rows[-1][3] >> SUB_BITS
    whole = [row for row in rows if row[3] >> SUB_BITS < cut]
    if whole:
        return list(_with_previous(db, whole)), cut - 1
    single = db.execute(query, (first_id(cut), first_id(cut + 1), *values, -1)).fetchall()
    return list(_with_previous(db, single)), cut


def _fetch(cursor: sqlite3.Cursor, limit: int) -> tuple[list[Row], bool]:
    """Return rows up to the limits, at least two, and True if there are no more."""
    rows: list[Row] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += len(row[1])
        if size >= READ_BYTES and len(rows) > 1:
            return rows, False
    return rows, len(rows) < limit


def _with_previous(db: sqlite3.Connection, rows: list[Row]) -> Iterator[KeyChange]:
    for row in rows:
        before = db.execute(BEFORE, (row[0], row[3])).fetchone() if row[4] != 1 else None
        previous = read_row(before) if before and before[4] else None
        yield KeyChange(read_row(row), previous)


def _range(start: bytes, end: bytes) -> tuple[str, tuple[bytes, ...]]:
    if not end:
        return "key = ?", (start,)
    if end == FOREVER:
        return "key >= ?", (start,)
    return "key >= ? AND key < ?", (start, end)


ROWS = f"SELECT {COLUMNS} FROM log"
BASE = f"{ROWS} WHERE id IN (SELECT max(id) FROM log WHERE id < ? GROUP BY key) AND version > 0 ORDER BY id"
LATER = f"{ROWS} WHERE id >= ? AND id < ? ORDER BY id"

StoredRow = tuple[int, KeyValue]
"""A row's id, and the key as it was put, or its tombstone."""


@contextmanager
def reading(db: sqlite3.Connection) -> Iterator[int]:
    """Read one state of the file, whatever is compacted and swept meanwhile; yields its compacted revision."""
    db.execute("BEGIN")
    try:
        yield int(db.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()[0])
    finally:
        db.execute("COMMIT")


def surviving_rows(db: sqlite3.Connection, compacted: int, revision: int) -> Iterator[StoredRow]:
    """Yield the rows that compaction leaves, in id order, whether or not the others are swept already.

    These are each key's newest value at the compacted revision, then every change up to `revision`.
    """
    base = first_id(compacted + 1)
    for query, bounds in ((BASE, (base,)), (LATER, (base, first_id(revision + 1)))):
        for row in db.execute(query, bounds):
            yield row[3], read_row(row)


def history_hash(db: sqlite3.Connection, revision: int) -> tuple[int, int]:
    """Return a hash that is equal for equal history, on any copy of the file, and the compacted revision of it."""
    value = 0
    with reading(db) as compacted:
        for row, kv in surviving_rows(db, compacted, revision):
            value = zlib.crc32(NUMBERS.pack(row, kv.create_revision, kv.version, kv.lease), value)
            value = zlib.crc32(kv.value, zlib.crc32(b"%d:%b" % (len(kv.key), kv.key), value))
    return value, compacted
