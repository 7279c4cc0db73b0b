"""Copy the store into etcd's own database format; `etcdctl snapshot restore` makes an etcd of the copy."""

import asyncio
import errno
import hashlib
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, cast

from actors.store.file.bolt import BoltWriter, Pair
from actors.store.file.history import open_reader, reading, surviving_rows
from actors.store.model.errors import DiskFailed, NoSpace
from actors.store.model.options import StoreOptions
from actors.store.model.types import SUB_BITS
from actors.store.mvcc.operations import to_wire
from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2
from protocols.wire.protobuf import varint

CHUNK = 256 * 1024
CONSISTENT_INDEX = 1


def snapshot_file(options: StoreOptions) -> tuple[BinaryIO, int]:
    """Write a snapshot to an unnamed temporary file; return it, rewound, with its size.

    Raises:
        NoSpace, DiskFailed: The file could not be written.
    """
    try:
        file = cast(BinaryIO, tempfile.TemporaryFile(dir=options.directory))  # noqa: SIM115  # the caller's to close
        try:
            size = write_snapshot(options.file, file)
            file.seek(0)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise NoSpace() from None
        raise DiskFailed(f"etcdserver: the snapshot cannot be written: {error.strerror}") from None
    return file, size


def write_snapshot(source: Path, target: BinaryIO) -> int:
    """Write everything at one revision; return the size of the target."""
    with closing(open_reader(source)) as db, reading(db) as compacted:
        newest = db.execute("SELECT max(id) FROM log").fetchone()[0] or 0
        bolt = BoltWriter(target)
        bolt.bucket(b"key", _pairs(db, compacted, newest >> SUB_BITS))
        bolt.bucket(b"lease", _leases(db))
        bolt.bucket(b"meta", _meta(compacted))
        return bolt.finish()


def _pairs(db: sqlite3.Connection, compacted: int, revision: int) -> Iterator[Pair]:
    for row, kv in surviving_rows(db, compacted, revision):
        place = _place(kv.mod_revision, row & ((1 << SUB_BITS) - 1))
        if kv.version:
            yield place, to_wire(kv).SerializeToString()
        else:
            yield place + b"t", mvcc_pb2.KeyValue(key=kv.key).SerializeToString()


def _place(revision: int, sub: int) -> bytes:
    return revision.to_bytes(8, "big") + b"_" + sub.to_bytes(8, "big")


def _leases(db: sqlite3.Connection) -> Iterator[Pair]:
    for lease, ttl in db.execute("SELECT id, ttl FROM leases ORDER BY id < 0, id"):  # in the order of their bytes
        yield lease.to_bytes(8, "big", signed=True), b"\x08" + varint(lease) + b"\x10" + varint(ttl)


def _meta(compacted: int) -> list[Pair]:
    pairs = [(b"consistent_index", CONSISTENT_INDEX.to_bytes(8, "big"))]
    if compacted:
        pairs += [(name, _place(compacted, 0)) for name in (b"finishedCompactRev", b"scheduledCompactRev")]
    return pairs


async def chunks(file: BinaryIO, size: int) -> AsyncIterator[pb.SnapshotResponse]:
    """Yield the file in pieces, then its SHA-256."""
    digest, left = hashlib.sha256(), size
    while left:
        blob = await asyncio.to_thread(file.read, CHUNK)
        digest.update(blob)
        left -= len(blob)
        yield pb.SnapshotResponse(remaining_bytes=left, blob=blob)
    yield pb.SnapshotResponse(blob=digest.digest())
