"""What failed without a fault that explains it: processes, tasks, and what they log as errors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation.model import Broken
from tests.simulation.world.actors import SUPERVISOR
from tests.simulation.world.process import Process
from tests.simulation.world.world import START

if TYPE_CHECKING:
    from tests.simulation.world.world import World


LEADERSHIP_LOST = "task lease failed: LeadershipLost"
"""A leader that cannot renew its lease ends: whoever leads next must be sure that it does not act."""
STOP_FAILED, STOP_S = "stop failed: TimeoutError", 5.0
"""A process that was paused while it stopped may need longer than that."""
TOGETHER_S = 1.0


def failures(world: "World", expected: tuple[str, ...] = (LEADERSHIP_LOST,)) -> Iterator[Broken]:
    """Check all processes; `expected` are the beginnings of errors that may be logged, and that may end a process.

    A fault excuses the process that it ends, not the tasks of one that goes on until it is killed.
    """
    for process in [*world.graveyard, *world.processes.values()]:
        if (process.code and world.excused(process.ended_at)) or _explained(world, process, expected):
            continue
        for kind, count in process.failures.items():
            yield Broken("no task ends unheard", f"{process.name}: {kind} {count}")
        if process.code and not process.name.endswith(SUPERVISOR):
            yield Broken("no process fails", f"{process.name} ended with code {process.code}")
    for at, name, text in world.errors:
        ended = (each for each in world.graveyard if each.name == name and at <= each.ended_at <= at + TOGETHER_S)
        late = any(text.startswith(_expected(each, expected)) for each in ended)
        if not late and not text.startswith(expected) and not world.excused(at):
            yield Broken("no error is logged", f"{name}: {text}", at)


def _expected(process: Process, expected: tuple[str, ...]) -> tuple[str, ...]:
    paused = process.paused_until - START > process.ended_at - STOP_S
    return (*expected, STOP_FAILED) if paused else expected


def _explained(world: "World", process: Process, expected: tuple[str, ...]) -> bool:
    expected = _expected(process, expected)
    return any(
        name == process.name and text.startswith(expected) and at <= process.ended_at <= at + TOGETHER_S
        for at, name, text in world.errors
    )
