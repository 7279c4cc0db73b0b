"""Create the store's file, and check an existing one and its WAL before they are used.

SQLite ends reading a WAL, without an error, at the first frame it does not accept. That is right for the torn end
that a power cut leaves; but if the damage is in the middle, acknowledged writes would disappear silently. `check_wal`
finds that.
"""

import logging
import os
import secrets
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from actors.store.model.errors import StoreCorrupt
from protocols.process.files import sync_directory, sync_file

_LOG = logging.getLogger("store")

APPLICATION_ID = 0x6E706C6E
FORMAT = 2
"""Format 1 had no checksums of rows."""
SCHEMA = """
CREATE TABLE log (id INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL, created INTEGER NOT NULL,
  version INTEGER NOT NULL, lease INTEGER NOT NULL, sum INTEGER);
CREATE INDEX log_key ON log (key, id, version);
CREATE TABLE leases (id INTEGER PRIMARY KEY, ttl INTEGER NOT NULL, expires REAL NOT NULL, renewed INTEGER NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
PARTS = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
META = {"compacted", "swept", "cluster", "member"}


def create(path: Path) -> None:
    """Create a new file. It gets its name when it is complete, so an empty file is always a damaged one."""
    if wal_of(path).exists():
        raise corrupt_file(path, f"it is missing, and {wal_of(path).name} is there")
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")  # synced once, as a whole, before it gets its name
        ids = {"compacted": 0, "swept": 0, "cluster": secrets.randbits(63) | 1, "member": secrets.randbits(63) | 1}
        db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {FORMAT};")
        db.executemany("INSERT INTO meta VALUES (?, ?)", ids.items())
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
        # A rollback journal may come back after a power cut. Only the draft ever has one: the file is in WAL mode.
        db.execute("PRAGMA journal_mode = WAL")
    sync_file(draft)
    draft.replace(path)
    sync_directory(path.parent)


def check_present(path: Path) -> None:
    """Raise StoreCorrupt for an empty file: SQLite would take it for a new database and lose everything."""
    if path.is_file() and path.stat().st_size == 0:
        raise corrupt_file(path, "it is empty")


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Check format and integrity; raise StoreCorrupt or sqlite3.Error."""
    application, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    if application != APPLICATION_ID:
        raise StoreCorrupt(f"{path} is not a store of nodeplane; move it away and start again")
    if version > FORMAT:
        raise StoreCorrupt(f"{path} has format {version}, this nodeplane reads up to {FORMAT}: use a newer one")
    fault = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if fault != "ok":
        raise corrupt_file(path, fault)
    if version == 1:
        _add_sums(db)
        version = FORMAT
    names = {name for (name,) in db.execute("SELECT name FROM meta")} if _parts(db) == _expected() else set()
    if version < FORMAT or not names >= META:
        raise corrupt_file(path, f"its tables are not those of format {FORMAT}")


def _add_sums(db: sqlite3.Connection) -> None:
    """Give a file of format 1 the column of checksums, which SQLite does without a change of its rows."""
    if "sum INTEGER" not in dict(_parts(db)).get("log", "sum INTEGER"):
        db.execute("BEGIN IMMEDIATE")
        db.execute("ALTER TABLE log ADD COLUMN sum INTEGER")
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")


def _parts(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute(PARTS).fetchall()


def _expected() -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        return _parts(db)


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def corrupt_file(path: Path, reason: str) -> StoreCorrupt:
    """Return the error of a damaged file, with the last line of SQLite's report."""
    first = reason.splitlines()[-1] if reason else "unknown"
    return StoreCorrupt(f"the store's file {path} is damaged ({first}); restore it from a copy or move it away")


HEADER = struct.Struct(">IIII8sII")
FRAME = struct.Struct(">II8sII")
INDEX = struct.Struct("=16xI")
"""In the WAL's index file: the number of the last valid frame."""
MAGIC = (0x377F0682, 0x377F0683)


def wal_of(path: Path) -> Path:
    """Return the path of the write-ahead log beside a database."""
    return path.with_name(f"{path.name}-wal")


def check_wal(path: Path, synced: bool) -> None:
    """Check the WAL before the file is opened for writing, and cut off what SQLite does not read of it.

    `synced` means that each transaction was on disk before the next began; otherwise a power cut may leave any hole.

    Raises:
        StoreCorrupt: Acknowledged writes cannot be read.
    """
    wal = wal_of(path)
    if not wal.exists() or wal.stat().st_size < HEADER.size:
        return
    with wal.open("rb") as file:
        head = file.read(HEADER.size)
    if head == bytes(HEADER.size):
        _check_beginning(path, synced)
        return
    order = ">" if head[:4] == MAGIC[1].to_bytes(4, "big") else "<"
    if HEADER.unpack(head)[0] not in MAGIC or _checksum(head[:24], order) != struct.unpack(">II", head[24:]):
        raise _corrupt_wal(wal, "its header cannot be read")
    taken = _frames_read(path)
    _check_rest(wal, commits_after(wal, taken), f"what comes after frame {taken} cannot be read", synced)
    cut_off(wal, taken)


def _check_rest(wal: Path, commits: int, reason: str, synced: bool) -> None:
    """Judge the transactions that SQLite does not read. One may have been in progress at a crash: not acknowledged."""
    if commits <= 1:
        return
    if synced:
        raise _corrupt_wal(wal, reason)
    _LOG.warning(
        "acknowledged writes lost, as --store-sync normal allows file=%s transactions=%d why=%s", wal, commits, reason
    )


def cut_off(wal: Path, taken: int) -> None:
    """Cut off what is behind the frames that SQLite reads: behind a later crash's it would look like damage.

    The frames are those of a transaction that a crash or an error ended. Raises OSError.
    """
    with wal.open("r+b") as file:
        if len(head := file.read(HEADER.size)) < HEADER.size:
            return
        size = HEADER.size + taken * (FRAME.size + HEADER.unpack(head)[2])
        if size < os.fstat(file.fileno()).st_size:
            file.truncate(size)
            os.fsync(file.fileno())


def sync_wal(path: Path) -> None:
    """Make durable what a killed process wrote and did not sync: it is read, and shown, from now on.

    Lost to a power cut later, its revisions would be given to other writes. Call it while SQLite has the file closed.
    """
    wal = wal_of(path)
    if wal.exists():
        sync_file(wal)
        sync_directory(path.parent)


def _check_beginning(path: Path, synced: bool) -> None:
    """Check a WAL without a header: a power cut while its first transaction is written may leave that, too."""
    wal = wal_of(path)
    with path.open("rb") as file:
        page = int.from_bytes(file.read(18)[16:], "big")
    commits = sum(pages > 0 for _, pages in _frames(wal, 65536 if page == 1 else page, 0))
    _check_rest(wal, commits, "its header cannot be read", synced)


def _frames_read(path: Path) -> int:
    """Return the number of frames SQLite reads, from the WAL's index, which a read-only connection creates."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        with path.with_name(f"{path.name}-shm").open("rb") as index:
            return int(INDEX.unpack(index.read(INDEX.size))[0])


def commits_after(wal: Path, taken: int) -> int:
    """Count the commits in frames of this WAL (not of an earlier one it overwrote) that SQLite did not read."""
    with wal.open("rb") as file:
        _, _, page, _, salts, *_ = HEADER.unpack(file.read(HEADER.size))
    return sum(frame_salts == salts and pages > 0 for frame_salts, pages in _frames(wal, page, taken))


def _frames(wal: Path, page: int, first: int) -> Iterator[tuple[bytes, int]]:
    """Yield the salts of frames and, of one that ends a transaction, the number of pages; else 0."""
    with wal.open("rb") as file:
        file.seek(HEADER.size + first * (FRAME.size + page))
        while len(frame := file.read(FRAME.size)) == FRAME.size:
            _, pages, salts, *_ = FRAME.unpack(frame)
            yield salts, pages
            file.seek(page, 1)


def _checksum(data: bytes, order: str) -> tuple[int, int]:
    one = two = 0
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = one + even + two & 0xFFFFFFFF
        two = two + odd + one & 0xFFFFFFFF
    return one, two


def _corrupt_wal(wal: Path, reason: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the store's file {wal} is damaged ({reason}), acknowledged writes with it; restore {wal.parent} from a "
        f"copy, or move {wal.name} away to go on without them"
    )
