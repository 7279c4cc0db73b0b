"""Processes seen in /proc: CPU time and memory below a shim, and sessions that a killed shim left behind."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from actors.runtime.shim.system import start_ticks
from protocols.process import proc

_TICK_NS = 1_000_000_000 // proc.TICKS
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessUsage(NamedTuple):
    """CPU time and resident memory (bytes) of a process and all below it."""

    cpu_ns: int = 0
    rss: int = 0
    faults: int = 0
    major_faults: int = 0
    processes: int = 0


def usage_below(shim: int) -> ProcessUsage:
    """Sum over the descendants of a shim, with the CPU time of reaped ones. Zeros when the shim is gone."""
    ended = proc.stat_fields(shim)
    total = ProcessUsage(cpu_ns=_children_ns(ended)) if ended else ProcessUsage()
    for pid in descendants(shim):
        if fields := proc.stat_fields(pid):
            total = _add(total, fields, _rss(pid) or int(fields[proc.RESIDENT]) * _PAGE)
    return total


def _add(total: ProcessUsage, fields: list[bytes], rss: int) -> ProcessUsage:
    return ProcessUsage(
        total.cpu_ns + (int(fields[proc.USER]) + int(fields[proc.SYSTEM])) * _TICK_NS + _children_ns(fields),
        total.rss + rss,
        total.faults + int(fields[proc.MINOR_FAULTS]),
        total.major_faults + int(fields[proc.MAJOR_FAULTS]),
        total.processes + 1,
    )


def _rss(pid: int) -> int:
    """Return the exact RSS, 0 if unreadable. /proc/PID/stat lags by dozens of pages, all a small process has."""
    return proc.sizes(f"/proc/{pid}/smaps_rollup").get("Rss", 0)


def _children_ns(fields: list[bytes]) -> int:
    return (int(fields[proc.CHILDREN_USER]) + int(fields[proc.CHILDREN_SYSTEM])) * _TICK_NS


def descendants(pid: int) -> Iterator[int]:
    """Yield all processes below one; those that end meanwhile may be missing."""
    parents = [pid]
    while parents:
        for child in _children(parents.pop()):
            yield child
            parents.append(child)


def _children(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            pids += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        return pids
    return pids


def kill_process(pid: int) -> None:
    """Send SIGKILL; a process that is gone is no error."""
    if pid > 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_session(leader: int, ticks: int, boot: str) -> int:
    """Kill every process in the session of `leader` and return their number. Reads all of /proc: call in a thread.

    A session id is not reused while a member lives, so members without a leader belong to the old leader.
    """
    if leader <= 0 or boot != proc.boot_id() or start_ticks(leader) not in (0, ticks):
        return 0
    members = [pid for pid in proc.pids() if proc.stat_number(pid, proc.SESSION) == leader]
    for pid in members:
        kill_process(pid)
    return len(members)
