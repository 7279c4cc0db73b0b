"""What happened, for the oracle: commits on disk, calls of the writers, changes that each replica delivered."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.resync import Snapshot
from actors.store.file.history import surviving_rows
from actors.store.file.object_log import ObjectLog
from actors.store.model.types import Commit, KeyChange, LoadedState
from actors.watchcache.cache.history_check import HistoryLost
from actors.watchcache.cache.store_state import StoreState
from actors.watchcache.shell.store_follower import StoreFollower
from protocols.bus.follower import Follower
from protocols.bus.frames import Chunk, EventFrame
from protocols.messages.objects import STORED, ObjectEvent
from tests.simulation.model import Broken
from tests.simulation.world.patching import patch
from tests.simulation.world.world import START
from tests.support.linear import Operation

if TYPE_CHECKING:
    from tests.simulation.world.world import World

REGISTRY = "/registry/"
LATE_S = 3.0
"""Seconds after its end in which the store removes a lease."""
SETTLE_S = 20.0
"""Seconds in which everybody learns of a restored store: processes end over it, and old histories are still seen."""


class Seen(msgspec.Struct):
    """The changes that one incarnation of a replica or watcher delivered, in order."""

    who: str
    changes: list[tuple[int, str, bool]] = msgspec.field(default_factory=list)
    """Revision, key, deleted."""
    marks: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """(number of changes delivered before, mark): all changes up to the mark must be among them."""
    start: int | None = None
    """The revision of the list that it began with; None: the first mark tells."""
    below: str = ""
    """Only keys with this prefix are its business."""

    @property
    def begin(self) -> int | None:
        """Every change after this revision belongs to it; None before the first mark."""
        if self.start is not None:
            return self.start
        if not self.marks:
            return None
        count, mark = self.marks[0]
        return self.changes[0][0] - 1 if count else mark

    @property
    def last(self) -> int:
        """Every change up to this revision was delivered. A replica has a mark with each change, others may follow."""
        change, mark = self.changes[-1][0] if self.changes else 0, self.marks[-1][1] if self.marks else 0
        partial = self.start is None and mark == change
        return max(change - 1, mark - partial, self.start or 0)

    def concerns(self, key: str) -> bool:
        return key.startswith(self.below)


class Relist(msgspec.Struct, frozen=True):
    """A watcher was answered that its position is too old."""

    at: float
    who: str
    position: int
    compacted: int
    """The compacted revision of the store at that time."""

    @property
    def explained(self) -> bool:
        """True where nobody could read the changes after the position any more."""
        return self.position < self.compacted


class History:
    """All of one run. Kept outside of every process, so that no fault loses any of it."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.committed: dict[tuple[int, bytes], bytes | None] = {}
        """By (revision, key): the value on disk, None for a deletion."""
        self.latest: dict[bytes, tuple[int, bytes | None]] = {}
        self.revisions: dict[bytes, list[int]] = defaultdict(list)
        """Of each key, ascending."""
        self.changed: dict[bytes, float] = {}
        """Elapsed seconds of the last change of a key."""
        self.times: dict[int, float] = {}
        """Elapsed seconds of each commit, by revision."""
        self.acknowledged: list[tuple[bytes, int, bytes | None]] = []
        self.transactions: list[dict[bytes, bytes | None]] = []
        """What was to be written in one revision, also where no answer came; None for a deletion."""
        self.operations: dict[bytes, list[Operation]] = defaultdict(list)
        self.seen: list[Seen] = []
        self.compacted = 0
        """The revision up to which the store has dropped its history."""
        self.relists: list[Relist] = []
        self.skips: list[tuple[int, int]] = []
        """Revisions after the first, up to the second, of which somebody got the last states only: the history between
        was compacted. Deletions among them have the second as their revision."""
        self.replaced: list[str] = []
        """Replicas that found their history to be another than the store's."""
        self.diverged: list[tuple[float, str]] = []
        """Time and text: a replica at a mark, and the store's state of that revision."""
        self.unfit: list[tuple[float, str]] = []
        """Time and text: answers to syncs that do not begin where the follower is."""
        self.older: list[tuple[float, str]] = []
        """Time and text: snapshots that are older than their objects."""
        self.misreported: list[str] = []
        """Events of an informer that do not fit to those before."""
        self.unknown = 0
        self.opened_at = float("-inf")
        """Elapsed seconds when the embedded store last opened its file."""
        self.restored_at = float("-inf")
        """Elapsed seconds when the store was last restored from a backup."""
        self.settled_at = float("-inf")
        """Elapsed seconds from which nobody may see the history before a restore."""
        self.reused = False
        """True once a restored store gives revisions that it gave before: clients that were away cannot tell."""
        self.unsettled: set[int] = set()
        """Revisions that were committed while somebody may have decided by the history before a restore."""
        self._unjudged: set[bytes] = set()
        """Keys with a call under way while the store was restored."""
        self.lost: list[str] = []
        """What was on disk and is not when the store opens its file again."""
        self.rewritten: list[str] = []
        """Commits that contradict an earlier one of the same revision."""

    def record_commits(self) -> None:
        """Record each commit of the store once it is on disk."""
        commit = ObjectLog.commit

        def recorded(log: ObjectLog, content: Commit) -> None:
            commit(log, content)
            self.on_disk(content)

        patch(ObjectLog, "commit", recorded)
        load = ObjectLog.open

        def opened(log: ObjectLog) -> LoadedState:
            state = load(log)
            self.opened_at = self._world.elapsed
            self._reopened(log, state)
            return state

        patch(ObjectLog, "open", opened)

    def restored(self, revision: int, bump: int) -> None:
        """Forget what a backup of that revision does not have; other histories begin now."""
        world = self._world
        self.restored_at, self.reused = world.elapsed, self.reused or not bump
        self.compacted = revision + bump if bump else min(self.compacted, revision)
        self._settle()
        self.committed = {each: value for each, value in self.committed.items() if each[0] <= revision}
        self.latest = {key: (at, value) for (at, key), value in sorted(self.committed.items())}
        self.revisions.clear()
        for at, key in sorted(self.committed):
            self.revisions[key].append(at)
        self.acknowledged = [each for each in self.acknowledged if each[1] <= revision]
        self.seen.clear()
        self.relists.clear()
        self.replaced.clear()
        self.diverged.clear()
        self.unfit.clear()
        for key in self.operations:
            _, value = self.latest.get(key, (0, None))
            self.operations[key] = [Operation("cas", world.now, world.now, value=_written(value))]
        world.happened("etcd", f"restored from revision {revision}, raised by {bump}")

    def _settle(self) -> None:
        now = self._world.elapsed
        self.settled_at = now + SETTLE_S
        self._world.excuses.append((now, self.settled_at))

    def record_restores(self) -> None:
        """Record when a watch cache from before a restore hears of it; a store without a leader answers nobody."""
        run = StoreFollower.run

        async def followed(follower: StoreFollower) -> None:
            began = self._world.elapsed
            try:
                await run(follower)
            except HistoryLost:
                if began < self.restored_at:
                    self._settle()
                raise

        patch(StoreFollower, "run", followed)

    def relist(self, who: str, position: int) -> None:
        self.relists.append(Relist(self._world.elapsed, who, position, self.compacted))

    def record(self, key: bytes, began: float, operation: Operation) -> None:
        """Record a call; `began` is the world's time when its client read what it acts on."""
        if began - START < self.restored_at:
            self._unjudged.add(key)
        self.operations[key].append(operation)

    def acknowledge(self, key: bytes, began: float, revision: int, value: bytes | None) -> None:
        if began - START >= self.restored_at:
            self.acknowledged.append((key, revision, value))

    def judged(self) -> Iterator[tuple[bytes, list[Operation]]]:
        """Yield the calls of each key that must have a linear order."""
        for key, operations in self.operations.items():
            if key not in self._unjudged and not self.reused:
                yield key, operations

    def see(self, seen: Seen) -> None:
        """Judge what somebody sees from now on, unless it may still be of the history before a restore."""
        if self.settled:
            self.seen.append(seen)

    @property
    def settled(self) -> bool:
        """False while somebody may still see the history before a restore."""
        return self._world.elapsed > self.settled_at

    def _reopened(self, log: ObjectLog, state: LoadedState) -> None:
        """Record the commit during which the store died, if it is there; all others must be."""
        newest = max((revision for revision, _ in self.latest.values()), default=0)
        extra = [kv for _, kv in surviving_rows(log.db, 0, state.revision) if kv.mod_revision > newest]
        self.on_disk(Commit([KeyChange(kv, None) for kv in extra], [], [], 0))
        held = {bytes(kv.key): (kv.mod_revision, bytes(kv.value)) for kv in state.current}
        known = {key: (revision, value) for key, (revision, value) in self.latest.items() if value is not None}
        for key in sorted(key for key in {**held, **known} if held.get(key) != known.get(key))[:3]:
            found, wanted = held.get(key, (0, b""))[0], known.get(key, (0, b""))[0]
            self.lost.append(f"{key.decode()} at {wanted} was on disk; the store opens with {found} of it")

    def record_skips(self) -> None:
        """Record where history is skipped: by the watch cache, and by the replicas of API servers."""
        replace, catch_up = StoreState.replace, Replica._catch_up
        difference, start_over = Snapshot.difference, Replica._start_over
        held: list[int] = []

        def replaced(state: StoreState, kvs: Any, revision: int) -> Any:
            self.skips.append((state.position, revision))
            return replace(state, kvs, revision)

        def caught_up(replica: Replica, snapshot: Snapshot, mark: int) -> None:
            held.append(replica._settled)
            catch_up(replica, snapshot, mark)
            held.pop()

        def skipped(snapshot: Snapshot, objects: Any, position: int, mark: int) -> Any:
            self.skips.append((held[-1], mark))
            return difference(snapshot, objects, position, mark)

        def started_over(replica: Replica, snapshot: Snapshot, mark: int, why: str) -> None:
            if self.settled:
                self.replaced.append(f"{replica.resource.store} at {replica.mark}: {why}")
            start_over(replica, snapshot, mark, why)

        self._record_snapshots()
        patch(StoreState, "replace", replaced)
        patch(Replica, "_catch_up", caught_up)
        patch(Snapshot, "difference", skipped)
        patch(Replica, "_start_over", started_over)

    def _record_snapshots(self) -> None:
        """Record snapshots with objects that are newer than they are: a list of them would be expired at once."""
        on_snapshot = Replica.on_snapshot

        def taken(replica: Replica, items: list[tuple[str, ObjectEvent]], mark: int) -> None:
            newest = max((each.rv for _, each in items if each.type == STORED), default=0)
            if newest > mark:
                self.older.append(
                    (self._world.elapsed, f"{replica.resource.store} at {mark} has an object of {newest}")
                )
            on_snapshot(replica, items, mark)

        patch(Replica, "on_snapshot", taken)

    def record_answers(self) -> None:
        """Record where an owner's answer does not fit to the question: the follower then needs a snapshot."""
        replay = Follower._replay

        def replayed(follower: Follower, events: list[EventFrame], end: Chunk) -> bool:
            fits = replay(follower, events, end)
            if not fits and self.settled:
                text = f"{follower._options.stream} at {follower.seq}: {len(events)} events up to {end.seq}"
                self.unfit.append((self._world.elapsed, text))
            return fits

        patch(Follower, "_replay", replayed)

    def held_at(self, prefix: str, revision: int) -> dict[str, int]:
        """Return the revision of each object below a prefix as of a revision of the store, by key below it."""
        found, below = {}, prefix.encode()
        for key, revisions in self.revisions.items():
            if key.startswith(below) and (at := bisect_right(revisions, revision)):
                last = revisions[at - 1]
                if self.committed[last, key] is not None:
                    found[key[len(prefix) :].decode()] = last
        return found

    def changed_at(self, prefix: str, revision: int) -> set[str]:
        """Return the keys below a prefix that a revision changed."""
        below = [key for key in self.revisions if key.startswith(prefix.encode())]
        return {key[len(prefix) :].decode() for key in below if (revision, key) in self.committed}

    def stored(self, *resources: str) -> dict[str, dict[str, Any]]:
        """Return the objects on disk by resource and key below it."""
        found: dict[str, dict[str, Any]] = {name: {} for name in resources}
        for key, (_, value) in self.latest.items():
            resource, _, name = key.decode().removeprefix(REGISTRY).partition("/")
            if value is not None and resource in found:
                found[resource][name] = msgspec.json.decode(value)
        return found

    def leases_ended(self, ttl: float) -> bool:
        """Return True if a lease that nobody renews has ended: a store that starts gives each its whole time again."""
        return self._world.elapsed > self.opened_at + ttl + LATE_S

    def revision_of(self, resource: str, name: str) -> int:
        return self.latest[f"{REGISTRY}{resource}/{name}".encode()][0]

    def has_settled(self, resource: str, name: str, seconds: float) -> bool:
        """Return True if an object has not changed for so long, by when everybody knows it."""
        changed = self.changed.get(f"{REGISTRY}{resource}/{name}".encode(), 0.0)
        return changed <= self._world.elapsed - seconds

    def contradictions(self) -> Iterator[Broken]:
        """Yield what was on disk or acknowledged, and is not what it was."""
        for text in self.replaced:
            yield Broken("history", f"another history than that of the store: {text}")
        for text in self.lost:
            yield Broken("durable", text)
        for text in self.misreported[:3]:
            yield Broken("informer events fit", text)
        for text in self.rewritten:
            yield Broken("acknowledged", f"{text} was committed twice")

    def is_skipped(self, revision: int) -> bool:
        return any(after < revision <= until for after, until in self.skips)

    def on_disk(self, content: Commit) -> None:
        """Take a commit that no kill can undo."""
        self.compacted = content.compacted
        for change in content.changes:
            kv = change.kv
            value = None if change.deleted else bytes(kv.value)
            key, revision = bytes(kv.key), kv.mod_revision
            if (revision, key) in self.committed:
                self.rewritten.append(f"{key.decode()} at {revision}")
            self.committed[revision, key] = value
            if not self.settled:
                self.unsettled.add(revision)
            self.latest[key] = revision, value
            self.revisions[key].append(revision)
            self.changed[key] = self.times[revision] = self._world.elapsed


def _written(value: bytes | None) -> bytes | None:
    """Return what the writer of an object calls its value: objects written over HTTP name it in their data."""
    data = msgspec.json.decode(value).get("data") if value else None
    return data["v"].encode() if data and "v" in data else value
