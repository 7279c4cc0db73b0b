"""Signals to the processes of a plane, as a bad day sends them: past the supervisor, which must notice by itself."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable

from tests.support.plane import Plane, until

REPLACED_S = 60.0
"""A hung actor is killed after five seconds of silence and one for its stack dump; its start takes what it takes."""


def pids(plane: Plane, actors: Iterable[str]) -> dict[str, int]:
    """Once all of them live: one that waits for its next start has none, and 0 means everybody here to kill()."""
    wanted = list(actors)
    assert wanted

    def living() -> dict[str, int]:
        now = {actor: found["pid"] for actor, found in plane.status().items()}
        return {actor: now[actor] for actor in wanted} if all(now.get(actor) for actor in wanted) else {}

    return until(f"{', '.join(wanted)} alive", living, every=0.1)


def hit(plane: Plane, *actors: str, number: int = signal.SIGKILL) -> dict[str, int]:
    """Signals these actors as nearly at once as can be; returns the pids that were hit."""
    found = pids(plane, actors)
    for pid in found.values():
        os.kill(pid, number)
    return found


def replaced(plane: Plane, before: dict[str, int], timeout: float = REPLACED_S) -> None:
    """Waits until each of these actors runs under another pid."""

    def all_new() -> bool:
        now = pids(plane, before)
        return all(now[actor] != pid for actor, pid in before.items())

    until(f"{', '.join(before)} started anew", all_new, timeout, every=0.1)


def is_shim(line: str) -> bool:
    """Whether a command line is of a container's keeper, which outlives the plane on purpose."""
    return "actors.runtime.shim.launcher" in line


def kill_whole(plane: Plane, timeout: float = 30.0) -> None:
    """kill -9 of all of it, also of what one of them has just started; returns when nothing of it is left."""
    deadline = time.monotonic() + timeout
    while left := of_the_plane(plane):
        assert time.monotonic() < deadline, f"outlived kill -9: {left}"
        kill_all(left)
        time.sleep(0.02)


def kill_all(pids: Iterable[int]) -> None:
    """-9; the end of one may have been the end of the next."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def of_the_plane(plane: Plane) -> dict[int, str]:
    """Its processes but for the containers and their keepers."""
    return {pid: line for pid, line in plane.processes().items() if not is_shim(line)}
