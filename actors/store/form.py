"""The form of the store's file: how it is made, and whether what is found is one."""

import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from actors.store.errors import StoreCorrupt
from actors.store.wal import wal_of

APPLICATION_ID = 0x6E706C6E
FORMAT = 1
SCHEMA = """
CREATE TABLE log (id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL, created INTEGER NOT NULL,
  version INTEGER NOT NULL, lease INTEGER NOT NULL);
CREATE INDEX log_key ON log (key, id, version);
CREATE TABLE leases (id INTEGER PRIMARY KEY, ttl INTEGER NOT NULL, expires REAL NOT NULL, renewed INTEGER NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
PARTS = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
META = {"compacted", "swept", "cluster", "member"}


def create(path: Path) -> None:
    """A new file gets its name when it is whole: so an empty one is always a damaged one. Raises sqlite3.Error."""
    if wal_of(path).exists():
        raise damaged(path, f"it is missing, and {wal_of(path).name} is there")
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        ids = {"compacted": 0, "swept": 0, "cluster": secrets.randbits(63) | 1, "member": secrets.randbits(63) | 1}
        db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {FORMAT};")
        db.executemany("INSERT INTO meta VALUES (?, ?)", ids.items())
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    draft.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def check_present(path: Path) -> None:
    """Raises StoreCorrupt."""
    if path.is_file() and path.stat().st_size == 0:
        raise damaged(path, "it is empty")


def check_form(db: sqlite3.Connection, path: Path) -> None:
    """Raises StoreCorrupt, sqlite3.Error."""
    application, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    if application != APPLICATION_ID:
        raise StoreCorrupt(f"{path} is not a store of nodeplane; move it away and start again")
    if version > FORMAT:
        raise StoreCorrupt(f"{path} has format {version}, this nodeplane reads up to {FORMAT}: use a newer one")
    fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if fault != "ok":
        raise damaged(path, fault)
    names = {name for (name,) in db.execute("SELECT name FROM meta")} if _parts(db) == _expected() else set()
    if version < FORMAT or not names >= META:
        raise damaged(path, f"its tables are not those of format {FORMAT}")


def _parts(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute(PARTS).fetchall()


def _expected() -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        return _parts(db)


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def damaged(path: Path, reason: str) -> StoreCorrupt:
    first = reason.splitlines()[-1] if reason else "unknown"
    return StoreCorrupt(f"the store's file {path} is damaged ({first}); restore it from a copy or move it away")
