"""The promises of the control plane, checked against the history of a run."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.simulation.control.history import History, Seen
from tests.simulation.model import Broken
from tests.simulation.world.actors import SUPERVISOR
from tests.support.linear import linearizable

if TYPE_CHECKING:
    from tests.simulation.world.world import World


class Oracle:
    def __init__(self, world: "World", history: History, prefix: bytes, expected: tuple[str, ...]) -> None:
        self._world, self._history, self._prefix = world, history, prefix
        self._expected = expected
        """Processes that must run at the end."""

    def check(self) -> list[Broken]:
        """Return every broken promise."""
        found = [
            *self._acknowledged(),
            *self._linearizable(),
            *self._converged(),
            *self._no_failures(),
        ]
        for seen in self._history.seen:
            found += self._watched(seen)
        return found

    def _acknowledged(self) -> Iterator[Broken]:
        for key, revision, value in self._history.acknowledged:
            if (revision, key) not in self._history.committed:
                yield Broken("acknowledged", f"{key.decode()} at {revision} is lost")
            elif self._history.committed[revision, key] != value:
                yield Broken("acknowledged", f"{key.decode()} at {revision} has another value")
        for text in self._history.rewritten:
            yield Broken("acknowledged", f"{text} was committed twice")

    def _linearizable(self) -> Iterator[Broken]:
        for key, operations in self._history.operations.items():
            if not linearizable(operations):
                yield Broken("linearizable", f"{key.decode()}: no order explains {len(operations)} answers")

    def _watched(self, seen: Seen) -> Iterator[Broken]:
        by_key: dict[str, list[int]] = defaultdict(list)
        for revision, key, _ in seen.changes:
            by_key[key].append(revision)
        excused = bool(seen.excused or self._history.relists)
        for key, revisions in by_key.items():
            if any(later <= earlier for earlier, later in pairwise(revisions)):
                yield Broken("watch ordered and unique", f"{seen.who}: {key}: {_first_fall(revisions)}")
            every = self._history.revisions[self._prefix + key.encode()]
            wanted = every[bisect_left(every, revisions[0]) : bisect_right(every, revisions[-1])]
            missing = sorted(set(wanted) - set(revisions))
            if missing and not excused:
                yield Broken("watch without a gap", f"{seen.who}: {key} misses {len(missing)}, first {missing[0]}")

    def _converged(self) -> Iterator[Broken]:
        world = self._world
        for name in self._expected:
            if name not in world.processes:
                yield Broken("converged", f"{name} does not run")
        wanted = {
            key[len(self._prefix) :].decode(): value
            for key, (_, value) in self._history.latest.items()
            if value is not None and key.startswith(self._prefix)
        }
        for name, process in world.processes.items():
            replica = process.notes.get("replica")
            if replica is None:
                continue
            held = {each.key: each.raw for each in replica.objects.below("")}
            if held != wanted:
                differ = [key for key in sorted(set(held) | set(wanted)) if held.get(key) != wanted.get(key)]
                state = f"synced={replica.synced} mark={replica.mark}"
                yield Broken("converged", f"{name} holds {len(held)} of {len(wanted)}, {differ[:3]} differ; {state}")
            if replica.histories_replaced:
                yield Broken("history", f"{name}: the history was replaced {replica.histories_replaced} times")

    def _no_failures(self) -> Iterator[Broken]:
        world = self._world
        for process in [*world.graveyard, *world.processes.values()]:
            for kind, count in process.failures.items():
                yield Broken("no task ends unheard", f"{process.name}: {kind} {count}")
            if process.code and process.name != SUPERVISOR:
                yield Broken("no process fails", f"{process.name} ended with code {process.code}")
        for at, name, text in world.errors:
            yield Broken("no error is logged", f"{name}: {text}", at)


def _first_fall(revisions: list[int]) -> str:
    for earlier, later in pairwise(revisions):
        if later <= earlier:
            return f"{later} after {earlier}"
    return ""
