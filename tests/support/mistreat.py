"""Signals to the processes of a plane, as a bad day sends them: past the supervisor, which must notice by itself."""

import os
import signal
from collections.abc import Iterable

from tests.support.plane import Plane, until

HANG_S = 12.0
"""Within this a hung actor is killed and back: five seconds of silence, one for its stack dump, and its start."""


def pids(plane: Plane, actors: Iterable[str]) -> dict[str, int]:
    status = plane.status()
    return {actor: status[actor]["pid"] for actor in actors}


def hit(plane: Plane, *actors: str, number: int = signal.SIGKILL) -> dict[str, int]:
    """Signals these actors as nearly at once as can be; returns the pids that were hit."""
    found = pids(plane, actors)
    for pid in found.values():
        os.kill(pid, number)
    return found


def replaced(plane: Plane, before: dict[str, int], timeout: float = HANG_S) -> None:
    """Waits until each of these actors runs under another pid."""

    def all_new() -> bool:
        now = pids(plane, before)
        return all(now[actor] not in (0, pid) for actor, pid in before.items())

    until(f"{', '.join(before)} started anew", all_new, timeout, every=0.1)


def parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def is_shim(line: str) -> bool:
    """Whether a command line is of a container's keeper, which outlives the plane on purpose."""
    return "actors.runtime.launcher" in line


def of_the_plane(plane: Plane) -> dict[int, str]:
    """Its processes but for the containers and their keepers."""
    return {pid: line for pid, line in plane.processes().items() if not is_shim(line)}
