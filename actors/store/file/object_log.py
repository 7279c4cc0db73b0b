"""The object log: one SQLite file, and the only connection that writes and checkpoints it.

SQLite before 3.51.3 can damage a file when one connection writes while another checkpoints. Therefore readers
(history.py) never checkpoint, and automatic checkpoints are off.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import cast

from actors.store.file.file_check import (
    check_format,
    check_present,
    check_wal,
    corrupt_file,
    create,
    cut_off,
    sync_wal,
    wal_of,
)
from actors.store.file.rows import COLUMNS, Row, first_id, read_row, row_sum
from actors.store.model.errors import DiskFailed, NoSpace, StoreError, StoreUnusable
from actors.store.model.options import StoreOptions
from actors.store.model.types import SUB_BITS, Commit, LeaseRecord, LoadedState
from protocols.process.files import make_directory

CURRENT = f"""SELECT newest.own, {COLUMNS} FROM (SELECT key AS own, max(id) AS row FROM log GROUP BY key) newest
  LEFT JOIN log ON id = newest.row"""
"""The inner query uses only the index; otherwise SQLite would read all past values."""
INSERT = "INSERT INTO log (id, key, value, created, version, lease, sum) VALUES"
MAX_ROWS = 32
"""Most rows written by one statement."""


class ObjectLog:
    """All durable state. After `open` all methods belong to the writer thread."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._db: sqlite3.Connection | None = None
        self._compacted = 0
        self._torn = False
        """True while the WAL has a rest of a transaction that failed."""

    @property
    def db(self) -> sqlite3.Connection:
        if self._db is None:
            raise DiskFailed("etcdserver: the store's file is not open")
        return self._db

    def open(self) -> LoadedState:
        """Create or load the file; raise StoreCorrupt or StoreUnusable, and then hold it no longer."""
        try:
            return self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> LoadedState:
        path = self._options.file
        try:
            make_directory(path.parent, 0o700)
            if not path.exists():
                create(path)
            check_present(path)
            check_wal(path, synced=self._options.sync == "full")
            if self._options.sync == "full":
                sync_wal(path)
            self._db = _connect(path)
            self._configure()
            check_format(self._db, path)
            return self._load()
        except OSError as error:
            text = f"cannot use the store's directory {path.parent}: {error.strerror}; make it writable"
            raise StoreUnusable(text) from None
        except sqlite3.OperationalError as error:
            raise StoreUnusable(f"cannot open the store's file {path}: {error}; free space or mend access") from None
        except sqlite3.DatabaseError as error:
            raise corrupt_file(path, str(error)) from None

    def _configure(self) -> None:
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA wal_autocheckpoint = 0")
        self.db.execute(f"PRAGMA synchronous = {self._options.sync.upper()}")
        self.db.execute("PRAGMA journal_size_limit = 16777216")
        if self._options.max_pages:
            self.db.execute(f"PRAGMA max_page_count = {int(self._options.max_pages)}")

    def _load(self) -> LoadedState:
        meta = dict(self.db.execute("SELECT name, value FROM meta"))
        current = [kv for row in self._current() if (kv := read_row(row)).version]
        newest = self.db.execute("SELECT max(id) FROM log").fetchone()[0]
        stored = self.db.execute("SELECT id, ttl, expires FROM leases")
        leases = [LeaseRecord(lease, ttl, expires) for lease, ttl, expires in stored]
        revision = newest >> SUB_BITS if newest else 1
        self._compacted = meta["compacted"]
        return LoadedState(current, revision, meta["compacted"], leases, meta["cluster"], meta["member"])

    def _current(self) -> list[Row]:
        """Return the newest row of each key, by id. Raises StoreCorrupt if the index does not match the rows."""
        rows: list[Row] = []
        last = b""
        for own, *columns in self.db.execute(CURRENT):
            if columns[0] != own or (rows and own <= last):
                raise corrupt_file(self._options.file, f"its index does not match the row of {own!r:.200}")
            rows.append(cast("Row", tuple(columns)))
            last = own
        return sorted(rows, key=itemgetter(3))

    def commit(self, commit: Commit) -> None:
        """Write all of `commit`; it is on disk when this returns.

        Raises:
            NoSpace, DiskFailed: Nothing of it was stored.
        """
        with self.writing() as db:
            if commit.changes_only and len(commit.changes) <= MAX_ROWS and commit.compacted == self._compacted:
                self._insert(commit)
                return
            db.execute("BEGIN IMMEDIATE")
            self._write(commit)
            db.execute("COMMIT")
            self._compacted = commit.compacted

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction; one that fails is rolled back.

        Raises:
            NoSpace, DiskFailed: Nothing of it was stored.
        """
        if self._torn:
            self._cut_off()
        try:
            yield self.db
        except sqlite3.Error as error:
            self._torn = True
            self._rollback()
            raise disk_error(error) from None

    def _cut_off(self) -> None:
        """Cut the rest of a failed transaction off the WAL: it could follow one that a crash leaves unfinished."""
        try:
            locked, frames, _ = self.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if locked:
                raise DiskFailed("etcdserver: the store's file cannot be written: another process has locked it")
            cut_off(wal_of(self._options.file), frames)
        except sqlite3.Error as error:
            raise disk_error(error) from None
        except OSError as error:
            raise DiskFailed(f"etcdserver: the store's file cannot be written: {error.strerror}") from None
        self._torn = False

    def _insert(self, commit: Commit) -> None:
        # A single statement is a transaction of its own, with a fraction of the calls into SQLite.
        rows = _rows(commit)
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        self.db.execute(f"{INSERT} {places}", [value for row in rows for value in row])

    def _write(self, commit: Commit) -> None:
        if commit.changes:
            self.db.executemany(f"{INSERT} (?, ?, ?, ?, ?, ?, ?)", _rows(commit))
        for record in commit.leases:
            row = (record.id, record.ttl, record.expires)
            self.db.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, 0)", row)
        self.db.executemany("DELETE FROM leases WHERE id = ?", [(lease,) for lease in commit.revoked])
        self.db.execute(
            "UPDATE meta SET value = ? WHERE name = 'compacted' AND value < ?", (commit.compacted, commit.compacted)
        )

    def _rollback(self) -> None:
        try:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        except sqlite3.Error:
            # SQLite rolls back by itself on the errors that make an explicit rollback fail.
            pass

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _rows(commit: Commit) -> list[tuple[int, bytes, bytes, int, int, int, int]]:
    rows, revision, sub = [], 0, 0
    for change in commit.changes:
        kv = change.kv
        revision, sub = kv.mod_revision, sub + 1 if kv.mod_revision == revision else 0
        row = first_id(revision) + sub
        rows.append((row, kv.key, kv.value, kv.create_revision, kv.version, kv.lease, row_sum(row, kv)))
    return rows


def _connect(path: Path) -> sqlite3.Connection:
    path.chmod(0o600)
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)


def disk_error(error: sqlite3.Error) -> StoreError:
    """Return the error that answers a failed write."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return NoSpace()
    return DiskFailed(f"etcdserver: the store's file cannot be written: {error}")
