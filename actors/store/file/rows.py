"""Rows of the log, each with a checksum: SQLite has none for its pages, and a flipped bit may still be valid JSON.

The value of a damaged row is replaced, so that only its object cannot be decoded and all others are readable.
"""

import logging
import struct
import zlib

from actors.store.model.types import SUB_BITS
from protocols.etcd.types import KeyValue

COLUMNS = "key, value, created, id, version, lease, sum"
Row = tuple[bytes, bytes, int, int, int, int, int | None]
"""Values of COLUMNS; rows written by format 1 have no checksum."""
DAMAGED = b"nodeplane: this row of the store's file is damaged"
NUMBERS = struct.Struct("<QQqq")
MOST_LOGGED = 1000
_LOG = logging.getLogger("store")
_logged: set[int] = set()


def first_id(revision: int) -> int:
    """Return the id of a revision's first row; later ones of the same transaction follow it."""
    return revision << SUB_BITS


def row_sum(row: int, kv: KeyValue) -> int:
    """Return the checksum of all columns of a row."""
    value = zlib.crc32(NUMBERS.pack(row, kv.create_revision, kv.version, kv.lease))
    return zlib.crc32(kv.value, zlib.crc32(b"%d:%b" % (len(kv.key), kv.key), value))


def read_row(row: Row) -> KeyValue:
    """Return the key and value of a row; one whose checksum differs gets a value that no object has."""
    key, value, created, at, version, lease, checksum = row
    kv = KeyValue(key, value, created, at >> SUB_BITS, version, lease)
    return kv if checksum is None or _is_sound(row, kv) else _damaged(at, kv)


def _is_sound(row: Row, kv: KeyValue) -> bool:
    try:
        return row[6] == row_sum(row[3], kv)
    except (struct.error, TypeError):  # numbers out of range, or values of another type
        return False


def _damaged(row: int, kv: KeyValue) -> KeyValue:
    if row not in _logged and len(_logged) < MOST_LOGGED:
        _logged.add(row)
        _LOG.error(
            "row of the store's file is damaged, delete or restore its object key=%s revision=%d",
            kv.key.decode(errors="replace") if isinstance(kv.key, bytes) else kv.key,
            kv.mod_revision,
        )
    version, created = _number(kv.version, 1), _number(kv.create_revision, kv.mod_revision)
    return KeyValue(kv.key, DAMAGED if version else b"", created, kv.mod_revision, version, _number(kv.lease, 0))


def _number(found: object, default: int) -> int:
    return found if isinstance(found, int) and found >= 0 else default
