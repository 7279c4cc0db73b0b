"""One container's log files: `0.log`, which is written, `0.log.20260102-150405`, which was set aside, older ones `.gz`.

Blocks: for threads. A kill at any moment loses nothing: a piece is removed only once its copy is complete.
"""

import calendar
import contextlib
import os
import shutil
import time
from pathlib import Path

from protocols.process.files import open_regular

UNFINISHED, PACKED = ".tmp", ".gz"
STAMP = "%Y%m%d-%H%M%S"
_BLOCK = 256 * 1024


def size_of(path: str) -> int:
    """Return the size in bytes, -1 for a missing file."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return -1
    except OSError:
        return 0


def pieces(log: Path) -> list[Path]:
    """Return the rotated files of a log, oldest first."""
    try:
        paths = [path for path in log.parent.iterdir() if path.name.startswith(log.name + ".")]
    except OSError:
        return []
    return sorted(path for path in paths if path.suffix != UNFINISHED)


def make_room(log: Path, keep: int) -> None:
    """Delete rotated files beyond `keep` and compress the rest. Raises OSError."""
    for path in log.parent.glob(f"{log.name}.*{UNFINISHED}"):
        path.unlink(missing_ok=True)
    for path in pieces(log)[: -keep or None]:
        path.unlink(missing_ok=True)
    for path in pieces(log):
        if path.suffix != PACKED:
            _pack(path)


def set_aside(log: Path) -> Path:
    """Rename the log and return its path: the newest of its pieces by name, also if the clock went back since the last.

    Raises OSError.
    """
    newest = max(map(_second, pieces(log)), default=0)
    target = log.with_name(f"{log.name}.{time.strftime(STAMP, time.gmtime(max(int(time.time()), newest + 1)))}")
    log.rename(target)
    return target


def _second(piece: Path) -> int:
    """Return the time in the name of a piece, 0 for a file of somebody else."""
    try:
        return calendar.timegm(time.strptime(piece.name.removesuffix(PACKED).rpartition(".")[2], STAMP))
    except ValueError:
        return 0


def put_back(log: Path, piece: Path) -> None:
    """Undo `set_aside` after the runtime failed to reopen the log: it still writes to `piece`."""
    with contextlib.suppress(OSError):
        os.link(piece, log)  # unlike a rename, never over a log that the runtime has opened after all
        piece.unlink()


def remove(log: Path) -> None:
    """Delete the log of an old run, with its rotated files."""
    for path in (log, *log.parent.glob(f"{log.name}.*")):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _pack(path: Path) -> None:
    import gzip  # loaded on first use: most nodes rotate no log

    packed = path.with_name(path.name + PACKED)
    unfinished = packed.with_name(packed.name + UNFINISHED)
    try:
        source = open_regular(path)
    except OSError:
        path.unlink()  # not a regular file: a container with access to the directory put it there
        return
    with source:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(unfinished, flags, os.fstat(source.fileno()).st_mode & 0o777)
        with os.fdopen(descriptor, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6) as sink:
            shutil.copyfileobj(source, sink, _BLOCK)
            os.fchmod(descriptor, os.fstat(source.fileno()).st_mode & 0o777)
    unfinished.rename(packed)
    path.unlink()
