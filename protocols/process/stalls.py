"""Records of blocked event loops in ROOT/run/stalls, written by a thread of the process, read by its supervisor.

A record exists while the loop is blocked. A process whose loop runs again removes its own; that of a killed process
stays, so that its supervisor can name the cause and other processes can reject the same work.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from protocols.process.files import UNREADABLE, write_atomic

DIRECTORY = "stalls"
KEPT_S = 300.0
"""Seconds for which a record is valid."""
MOST_RECORDS = 64
"""Records that are retained; the oldest go first."""
LARGEST = 8192
"""Bytes of a record."""


class Stall(msgspec.Struct, frozen=True):
    """A process whose loop is blocked. `what` is a line for users; `key` identifies work that must not be repeated."""

    instance: str
    pid: int
    at: float
    """Seconds since the epoch."""
    what: str
    key: str = ""

    @property
    def expires(self) -> float:
        return self.at + KEPT_S


def path_of(run: Path, instance: str, pid: int) -> Path:
    """Return the path of a process's record."""
    return run / DIRECTORY / f"{instance}-{pid}.json"


def write(run: Path, stall: Stall) -> None:
    """Make the record of a process. Raises OSError."""
    path = path_of(run, stall.instance, stall.pid)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomic(path, msgspec.json.encode(stall), is_durable=False)  # it may be forgotten with the machine's memory


def remove(run: Path, instance: str, pid: int) -> None:
    """Remove the record of a process, if there is one."""
    with suppress(OSError):
        path_of(run, instance, pid).unlink()


def read(run: Path, instance: str, pid: int) -> Stall | None:
    """Return what holds, or held, the loop of a process; None if nothing is known."""
    return _read(path_of(run, instance, pid))


def read_all(run: Path, now: float | None = None) -> Iterator[Stall]:
    """Yield the records that count, oldest first; remove the others. `now` is in seconds since the epoch."""
    now = time.time() if now is None else now
    records = []
    for path in (run / DIRECTORY).glob("*.json"):
        stall = _read(path)
        if stall is not None and now < stall.expires and stall.at <= now + KEPT_S:
            records.append((stall.at, path, stall))
        else:
            with suppress(OSError):
                path.unlink()
    records.sort(key=lambda each: each[0])
    for _, path, _ in records[:-MOST_RECORDS]:
        with suppress(OSError):
            path.unlink()
    for _, _, stall in records[-MOST_RECORDS:]:
        yield stall


def _read(path: Path) -> Stall | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(LARGEST), type=Stall)
    except (OSError, *UNREADABLE):
        return None
