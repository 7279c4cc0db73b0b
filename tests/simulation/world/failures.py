"""What failed without a fault that explains it: processes, tasks, and what they log as errors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation.model import Broken
from tests.simulation.world.actors import SUPERVISOR

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def failures(world: "World", expected: tuple[str, ...] = ()) -> Iterator[Broken]:
    """Check all processes; `expected` are the beginnings of errors that may be logged."""
    for process in [*world.graveyard, *world.processes.values()]:
        if world.excused(process.ended_at):
            continue
        for kind, count in process.failures.items():
            yield Broken("no task ends unheard", f"{process.name}: {kind} {count}")
        if process.code and not process.name.endswith(SUPERVISOR):
            yield Broken("no process fails", f"{process.name} ended with code {process.code}")
    for at, name, text in world.errors:
        if not text.startswith(expected or ("\0",)) and not world.excused(at):
            yield Broken("no error is logged", f"{name}: {text}", at)
