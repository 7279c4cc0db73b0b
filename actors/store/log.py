"""The object log: one SQLite file, and the one connection that writes and checkpoints it.

SQLite before 3.51.3 can damage a file when one connection writes while another checkpoints: so readers (history.py)
never checkpoint, and automatic checkpoints are off.
"""

import secrets
import sqlite3
from pathlib import Path

from actors.store.errors import DiskFailed, NoSpace, StoreCorrupt, StoreError, StoreUnusable
from actors.store.options import StoreOptions
from actors.store.types import SUB_BITS, Commit, KeyValue, LeaseRecord, Loaded

APPLICATION_ID = 0x6E706C6E
FORMAT = 1
SCHEMA = """
CREATE TABLE log (id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL, created INTEGER NOT NULL,
  version INTEGER NOT NULL, lease INTEGER NOT NULL);
CREATE INDEX log_key ON log (key, id, version);
CREATE TABLE leases (id INTEGER PRIMARY KEY, ttl INTEGER NOT NULL, expires REAL NOT NULL, renewed INTEGER NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
CURRENT = "SELECT key, value, created, max(id), version, lease FROM log GROUP BY key"
INSERT = "INSERT INTO log (id, key, value, created, version, lease) VALUES"
MOST_ROWS = 32
"""Rows written by one statement."""


def first_id(revision: int) -> int:
    return revision << SUB_BITS


class ObjectLog:
    """Everything durable. After open() all methods belong to the writer thread."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._db: sqlite3.Connection | None = None
        self._compacted = 0

    @property
    def db(self) -> sqlite3.Connection:
        if self._db is None:
            raise DiskFailed("etcdserver: the store's file is not open")
        return self._db

    def open(self) -> Loaded:
        """Create or load the file. Raises StoreCorrupt, StoreUnusable."""
        path = self._options.file
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._db = _connect(path)
            self._prepare(path)
            return self._load()
        except OSError as error:
            raise StoreUnusable(f"cannot use the store's directory {path.parent}: {error.strerror}") from None
        except sqlite3.OperationalError as error:
            self.close()
            raise StoreUnusable(f"cannot open the store's file {path}: {error}; free space or mend access") from None
        except sqlite3.DatabaseError as error:
            self.close()
            raise _corrupt(path, str(error)) from None

    def _prepare(self, path: Path) -> None:
        db = self.db
        application, version = _pragma(db, "application_id"), _pragma(db, "user_version")
        if _pragma(db, "schema_version") == 0:
            self._configure()
            self._create()
        elif application != APPLICATION_ID:
            raise StoreCorrupt(f"{path} is not a store of nodeplane; move it away and start again")
        elif version > FORMAT:
            raise StoreCorrupt(f"{path} has format {version}, this nodeplane reads up to {FORMAT}: use a newer one")
        else:
            self._configure()
            fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if fault != "ok":
                raise _corrupt(path, fault)

    def _configure(self) -> None:
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA wal_autocheckpoint = 0")
        self.db.execute(f"PRAGMA synchronous = {self._options.sync.upper()}")
        self.db.execute("PRAGMA journal_size_limit = 16777216")
        if self._options.max_pages:
            self.db.execute(f"PRAGMA max_page_count = {int(self._options.max_pages)}")

    def _create(self) -> None:
        ids = {"compacted": 0, "swept": 0, "cluster": secrets.randbits(63) | 1, "member": secrets.randbits(63) | 1}
        self.db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {FORMAT};")
        self.db.executemany("INSERT INTO meta VALUES (?, ?)", ids.items())
        self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.db.execute("COMMIT")

    def _load(self) -> Loaded:
        meta = dict(self.db.execute("SELECT name, value FROM meta"))
        rows = self.db.execute(CURRENT)
        current = [
            KeyValue(key, value, created, row >> SUB_BITS, version, lease)
            for key, value, created, row, version, lease in rows
            if version
        ]
        newest = self.db.execute("SELECT max(id) FROM log").fetchone()[0]
        stored = self.db.execute("SELECT id, ttl, expires, renewed FROM leases")
        leases = [LeaseRecord(lease, ttl, expires, bool(renewed)) for lease, ttl, expires, renewed in stored]
        revision = newest >> SUB_BITS if newest else 1
        self._compacted = meta["compacted"]
        return Loaded(current, revision, meta["compacted"], leases, meta["cluster"], meta["member"])

    def commit(self, commit: Commit) -> None:
        """Write all of `commit`, on disk before this returns; on an error nothing of it is kept.

        Raises NoSpace, DiskFailed.
        """
        try:
            if commit.changes_only and len(commit.changes) <= MOST_ROWS and commit.compacted == self._compacted:
                self._insert(commit)
                return
            self.db.execute("BEGIN IMMEDIATE")
            self._write(commit)
            self.db.execute("COMMIT")
            self._compacted = commit.compacted
        except sqlite3.Error as error:
            self._rollback()
            raise disk_error(error) from None

    def _insert(self, commit: Commit) -> None:
        """A single statement is a transaction of its own: all its rows or none, and a fraction of the calls."""
        rows = _rows(commit)
        places = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(rows))
        self.db.execute(f"{INSERT} {places}", [value for row in rows for value in row])

    def _write(self, commit: Commit) -> None:
        if commit.changes:
            self.db.executemany(f"{INSERT} (?, ?, ?, ?, ?, ?)", _rows(commit))
        for record in commit.leases:
            row = (record.id, record.ttl, record.expires, record.renewed)
            self.db.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)", row)
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


def _rows(commit: Commit) -> list[tuple[int, bytes, bytes, int, int, int]]:
    rows, revision, sub = [], 0, 0
    for change in commit.changes:
        kv = change.kv
        revision, sub = kv.mod_revision, sub + 1 if kv.mod_revision == revision else 0
        rows.append((first_id(revision) + sub, kv.key, kv.value, kv.create_revision, kv.version, kv.lease))
    return rows


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    path.chmod(0o600)
    return connection


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _corrupt(path: Path, reason: str) -> StoreCorrupt:
    first = reason.splitlines()[-1] if reason else "unknown"
    return StoreCorrupt(f"the store's file {path} is damaged ({first}); restore it from a copy or move it away")


def disk_error(error: sqlite3.Error) -> StoreError:
    """What a failed write is answered with."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return NoSpace()
    return DiskFailed(f"etcdserver: the store's file cannot be written: {error}")
