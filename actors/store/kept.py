"""What compaction leaves, whether or not its rows are swept already: the base of hashes and snapshots."""

import sqlite3
import struct
import zlib
from collections.abc import Iterator

from actors.store.log import first_id
from actors.store.types import SUB_BITS, KeyValue

ROWS = "SELECT id, key, value, created, version, lease FROM log"
BASE = f"{ROWS} WHERE id IN (SELECT max(id) FROM log WHERE id < ? GROUP BY key) AND version > 0 ORDER BY id"
LATER = f"{ROWS} WHERE id >= ? AND id < ? ORDER BY id"
NUMBERS = struct.Struct("<QQqq")

Row = tuple[int, KeyValue]
"""A row's id (revision and place in it), and the key as it was put, or the trace of its deletion."""


def kept_rows(db: sqlite3.Connection, compacted: int, revision: int) -> Iterator[Row]:
    """In id order: each key's newest value at the compacted revision, then every change up to `revision`."""
    base = first_id(compacted + 1)
    for query, bounds in ((BASE, (base,)), (LATER, (base, first_id(revision + 1)))):
        for row, key, value, created, version, lease in db.execute(query, bounds):
            yield row, KeyValue(key, value, created, row >> SUB_BITS, version, lease)


def kept_hash(db: sqlite3.Connection, compacted: int, revision: int) -> int:
    """Equal for equal history, on any copy of the file."""
    value = 0
    for row, kv in kept_rows(db, compacted, revision):
        value = zlib.crc32(NUMBERS.pack(row, kv.create_revision, kv.version, kv.lease), value)
        value = zlib.crc32(kv.value, zlib.crc32(b"%d:%b" % (len(kv.key), kv.key), value))
    return value
