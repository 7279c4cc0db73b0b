"""Upkeep of the file: sweep compacted rows, checkpoint, defragment; and disk space reserved for a restart.

The functions run in the writer thread between commits.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from actors.store.file.object_log import ObjectLog, disk_error
from actors.store.file.rows import first_id
from actors.store.model.types import SUB_BITS

STEP = 500
"""Rows scanned in one step: a write waits for at most one step."""
NEXT = "SELECT id, key, version FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
SUPERSEDED = "DELETE FROM log WHERE key = ? AND id < ?"


def sweep(log: ObjectLog) -> bool:
    """Remove rows that no revision from the compacted one on can see; return True while there are more.

    Every row up to the compacted revision supersedes the older rows of its key. A deletion below that revision goes as
    well; one at that revision stays, since a watch may start there. Hence the next sweep starts at this one's end.
    Raises NoSpace and DiskFailed, the latter for a page that cannot be read, too.
    """
    with log.writing() as db:
        meta = dict(db.execute("SELECT name, value FROM meta WHERE name IN ('compacted', 'swept')"))
        compacted, position = meta["compacted"], meta["swept"]
        end = first_id(compacted + 1)
        rows = db.execute(NEXT, (position, end, STEP)).fetchall()
        more = len(rows) == STEP
        done = rows[-1][0] + 1 if more else max(position, first_id(compacted))
        if done != position:
            _remove(db, rows, compacted, done)
    return more


def _remove(db: sqlite3.Connection, rows: list[tuple[int, bytes, int]], compacted: int, done: int) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.executemany(SUPERSEDED, [(key, row) for row, key, _ in rows])
    gone = [(row,) for row, _, version in rows if version == 0 and row >> SUB_BITS < compacted]
    db.executemany("DELETE FROM log WHERE id = ?", gone)
    db.execute("UPDATE meta SET value = ? WHERE name = 'swept'", (done,))
    db.execute("COMMIT")


def checkpoint(log: ObjectLog, mode: str = "PASSIVE") -> None:
    """Copy the WAL into the database file."""
    try:
        log.db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    except sqlite3.Error as error:
        raise disk_error(error) from None


def defragment(log: ObjectLog) -> None:
    """Rewrite the file without free pages."""
    with log.writing() as db:
        db.execute("VACUUM")
    checkpoint(log, "TRUNCATE")


def file_size(log: ObjectLog) -> tuple[int, int]:
    """Return the bytes of the file and those in use. Raises DiskFailed."""
    try:
        pages, free, size = (
            log.db.execute(f"PRAGMA {n}").fetchone()[0] for n in ("page_count", "freelist_count", "page_size")
        )
    except sqlite3.Error as error:
        raise disk_error(error) from None
    return pages * size, (pages - free) * size


SIZE = 256 * 1024


class DiskReserve:
    """A file of `SIZE` bytes that exists while the store serves, if the disk allows.

    It guarantees that a store that died can start again on a disk that others have filled: opening its file needs a new
    index of the WAL and a file with its address.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def release(self) -> None:
        """Free the space, before anything is opened."""
        with suppress(OSError):  # opening the database reports an unusable directory
            self._path.unlink()

    def create(self) -> None:
        """Reserve the space, once everything is open."""
        with suppress(OSError):  # failing writes report a full disk
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, bytes(SIZE))
            finally:
                os.close(descriptor)
