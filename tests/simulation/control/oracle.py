"""The promises of the control plane, checked against the history of a run."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from actors.apiserver.replica.replica import Replica
from tests.simulation.control.clients import items_of
from tests.simulation.control.history import History, Seen
from tests.simulation.model import Broken
from tests.simulation.world.failures import failures
from tests.support.linear import linearizable

if TYPE_CHECKING:
    from tests.simulation.world.world import World

MOST = 3
"""Reports of one promise for one reader."""


class Oracle:
    def __init__(self, world: "World", history: History, prefix: bytes, expected: tuple[str, ...]) -> None:
        self._world, self._history, self._prefix = world, history, prefix
        self._expected = expected
        """Processes that must run at the end."""
        below = [(revision, key) for revision, key in history.committed if key.startswith(prefix)]
        self._commits = [(revision, key[len(prefix) :].decode()) for revision, key in sorted(below)]

    def check(self) -> list[Broken]:
        """Return every broken promise."""
        found = [
            *self._acknowledged(),
            *self._whole(),
            *self._linearizable(),
            *self._relisted(),
            *self._converged(),
            *failures(self._world),
        ]
        for seen in self._history.seen:
            found += self._watched(seen)
        return found

    def _acknowledged(self) -> Iterator[Broken]:
        committed = self._history.committed
        for key, revision, value in self._history.acknowledged:
            if (revision, key) not in committed:
                yield Broken("acknowledged", f"{key.decode()} at {revision} is lost")
            elif not _holds(committed[revision, key], value):
                yield Broken("acknowledged", f"{key.decode()} at {revision} has another value")
        yield from self._history.contradictions()
        for at, text in self._history.diverged[:MOST]:
            yield Broken("a replica is the store at its mark", text, at)
        for at, text in self._history.older[:MOST]:
            yield Broken("a list is not older than its objects", text, at)

    def _whole(self) -> Iterator[Broken]:
        """Of a transaction all is on disk, in one revision, or nothing."""
        revisions = {value: revision for (revision, _), value in self._history.committed.items() if value is not None}
        for written in self._history.transactions:
            found = {key: revisions.get(value, 0) for key, value in written.items() if value is not None}
            if len(set(found.values())) > 1:
                text = ", ".join(f"{key.decode().rpartition('/')[2]} at {revision}" for key, revision in found.items())
                yield Broken("a transaction is whole", text)

    def _linearizable(self) -> Iterator[Broken]:
        for key, operations in self._history.judged():
            if not linearizable(operations):
                yield Broken("linearizable", f"{key.decode()}: no order explains {len(operations)} answers")

    def _relisted(self) -> Iterator[Broken]:
        """With real limits the history suffices: only a compaction or a backup may make a watcher list again."""
        for at, text in self._history.unfit[:MOST]:
            yield Broken("answers fit", text, at)
        if self._world.real_limits:
            for after, until in self._skips[:MOST]:
                yield Broken("no relist", f"a replica at {after} needs the whole state at {until}")
            for relist in self._history.relists:
                if relist.at > self._history.settled_at and not relist.explained:
                    yield Broken("no relist", f"{relist.who} had to list again after {relist.position}", relist.at)

    @property
    def _skips(self) -> list[tuple[int, int]]:
        """Others compact the model of an etcd whenever they like: then whole states are no surprise."""
        return [] if self._world.limits.get("etcd") else self._history.skips

    def _watched(self, seen: Seen) -> Iterator[Broken]:
        delivered = [(revision, key) for revision, key, _ in seen.changes]
        falls = [(a, b) for a, b in pairwise(delivered) if b[0] < a[0] or a == b]
        for earlier, later in falls[:MOST]:
            yield Broken("watch ordered and unique", f"{seen.who}: {later} after {earlier}")
        if seen.begin is None:
            return
        skipped = self._history.is_skipped
        ours = [commit for commit in self._commits if commit[0] > seen.begin and seen.concerns(commit[1])]
        ours = [each for each in ours if not skipped(each[0])]
        delivered = [each for each in delivered if not skipped(each[0])]
        missing = sorted({each for each in ours if each[0] <= seen.last} - set(delivered))
        for revision, key in missing[:MOST]:
            yield Broken("watch without a gap", f"{seen.who}: {key} at {revision} is missing of {len(missing)}")
        for revision, key in sorted(set(delivered) - set(ours))[:MOST]:
            yield Broken("watch tells the truth", f"{seen.who}: {key} at {revision} was never committed")
        yield from self._marks(seen)

    def _marks(self, seen: Seen) -> Iterator[Broken]:
        """All changes up to a bookmark were delivered before it, and none beyond it.

        A replica has a mark with each change, also where others of the same revision are still to come. An object that
        was put over with another uid, as only writers beside the API do, was deleted, to a replica that skips history
        and to its watches, at the revision before: the mark's.
        """
        bad, alone = 0, seen.start is None
        for count, mark in seen.marks:
            before = seen.changes[count - 1][0] if count else 0
            after = seen.changes[count][0] if count < len(seen.changes) else None
            if after == mark and ((alone and before == mark) or self._is_put_over(*seen.changes[count])):
                continue
            if (before > mark or (after is not None and after <= mark)) and bad < MOST:
                bad += 1
                yield Broken("bookmarks are true", f"{seen.who}: mark {mark} between {before} and {after}")

    def _is_put_over(self, revision: int, key: str, deleted: bool) -> bool:
        committed, stored = self._history.committed, self._prefix + key.encode()
        return deleted and (revision, stored) not in committed and (revision + 1, stored) in committed

    def _converged(self) -> Iterator[Broken]:
        world = self._world
        for name in self._expected:
            if name not in world.processes:
                yield Broken("converged", f"{name} does not run")
        wanted = self._latest(self._prefix)
        for name, process in world.processes.items():
            held = items_of(process)
            if held is not None and not self._history.reused:
                below = f"{process.notes['namespace']}/" if "namespace" in process.notes else ""
                theirs = {key: revision for key, (revision, _) in wanted.items() if key.startswith(below)}
                yield from _difference(name, held, theirs, getattr(process.notes.get("informer"), "failure", ""))
            for replica in process.notes.get("replicas", ()):
                yield from self._replica(name, replica)

    def _latest(self, prefix: bytes) -> dict[str, tuple[int, bytes]]:
        """Return revision and value of what is stored below a prefix."""
        return {
            key[len(prefix) :].decode(): (revision, value)
            for key, (revision, value) in self._history.latest.items()
            if value is not None and key.startswith(prefix)
        }

    def _replica(self, name: str, replica: Replica) -> Iterator[Broken]:
        wanted = self._latest(replica.resource.storage_prefix.encode())
        held = {each.key: (each.rv, each.raw) for each in replica.objects.below("")}
        yield from _difference(name, held, wanted, f"synced={replica.synced} mark={replica.mark}")


def _holds(stored: bytes | None, value: bytes | None) -> bool:
    """Return True if the stored object is the one written: API servers add fields to it."""
    return stored == value or (stored is not None and value is not None and b'"' + value + b'"' in stored)


def _difference(name: str, held: Mapping[str, object], wanted: Mapping[str, object], state: str) -> Iterator[Broken]:
    if held != wanted:
        keys = sorted(key for key in {**held, **wanted} if held.get(key) != wanted.get(key))
        yield Broken("converged", f"{name} holds {len(held)} of {len(wanted)}, {keys[:3]} differ; {state}")
