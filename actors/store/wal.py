"""Whether SQLite took all of the write-ahead log. It ends its reading, without a word, at the first frame it does not
believe: right for the torn end that a power cut leaves, but what was acknowledged would be gone silently if the damage
is in the middle."""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from actors.store.errors import StoreCorrupt

HEADER = struct.Struct(">IIII8sII")
FRAME = struct.Struct(">II8sII")
INDEX = struct.Struct("=16xI")
"""Of the log's index file: the number of the last frame that counts."""
MAGIC = (0x377F0682, 0x377F0683)


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def check_wal(path: Path, synced: bool) -> None:
    """Before the file is opened for writing, which would end with the log rewritten. `synced`: each transaction was on
    disk before the next was begun; otherwise a power cut may leave any hole behind. Raises StoreCorrupt."""
    wal = wal_of(path)
    if not wal.exists() or wal.stat().st_size < HEADER.size:
        return
    with wal.open("rb") as file:
        head = file.read(HEADER.size)
    order = ">" if head[:4] == MAGIC[1].to_bytes(4, "big") else "<"
    if HEADER.unpack(head)[0] not in MAGIC or _checksum(head[:24], order) != struct.unpack(">II", head[24:]):
        raise _damaged(wal, "its header cannot be read")
    # A transaction that was under way in a crash may be cut off; of more than one, the first was acknowledged.
    taken = _frames_taken(path)
    if synced and commits_past(wal, taken) > 1:
        raise _damaged(wal, f"what comes after frame {taken} cannot be read")


def _frames_taken(path: Path) -> int:
    """As the index of the log says, which any reader makes. A connection that cannot write leaves the log as it is."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        with path.with_name(f"{path.name}-shm").open("rb") as index:
            return int(INDEX.unpack(index.read(INDEX.size))[0])


def commits_past(wal: Path, taken: int) -> int:
    """Ends of transactions in the frames of this log (not of an earlier one below it) that SQLite did not take."""
    commits = 0
    with wal.open("rb") as file:
        _, _, page, _, salts, *_ = HEADER.unpack(file.read(HEADER.size))
        file.seek(HEADER.size + taken * (FRAME.size + page))
        while len(frame := file.read(FRAME.size)) == FRAME.size:
            _, pages, found, *_ = FRAME.unpack(frame)
            commits += found == salts and pages > 0
            file.seek(page, 1)
    return commits


def _checksum(data: bytes, order: str) -> tuple[int, int]:
    one = two = 0
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = one + even + two & 0xFFFFFFFF
        two = two + odd + one & 0xFFFFFFFF
    return one, two


def _damaged(wal: Path, reason: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the store's file {wal} is damaged ({reason}), acknowledged writes with it; restore {wal.parent} from a "
        f"copy, or move {wal.name} away to go on without them"
    )
