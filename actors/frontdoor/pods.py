"""The pods' side: a replica of the `allocations` stream, its journal and its watchers, all moved in one step.

Invariant: folding every event up to a position over nothing gives exactly what List answers at that position.
"""

from collections.abc import Iterable

from actors.frontdoor.encode import pod, pod_event
from actors.frontdoor.journal import Journal
from actors.frontdoor.types import Action, Entry
from actors.frontdoor.watchers import Watchers
from protocols.bus import Event, Op
from protocols.messages.devices import MARK_SHIFT, LedgerHistory, PodAllocation

JUMP = 1 << MARK_SHIFT
"""No ledger gets this far while a follower looks away: it is another one."""


class PodFeed:
    """A sink of the bus. Positions are the ledger's own, so they outlive this process and the device manager."""

    def __init__(self, journal: Journal, watchers: Watchers) -> None:
        self.pods: dict[str, PodAllocation] = {}
        self.journal = journal
        self.watchers = watchers
        self._begun = False

    def on_snapshot(self, items: list[tuple[str, PodAllocation]], mark: int) -> None:
        """The first one is where we begin; a later one is told as its difference, what is gone before what came."""
        fresh = dict(items)
        if not self._begun:
            self._begun = True
            self.pods = fresh
            self.journal.begin(mark)
            return
        changed: list[tuple[str, PodAllocation | None]] = [(uid, None) for uid in self.pods if uid not in fresh]
        changed += [(uid, value) for uid, value in items if self.pods.get(uid) != value]
        before = mark - len(changed)
        if 0 <= before - self.journal.position < JUMP:
            for position, (uid, value) in enumerate(changed, start=before + 1):
                self._apply(uid, value, position)
            self.journal.advance(mark)
        else:
            self._begin_anew(changed, mark)

    def _begin_anew(self, changed: list[tuple[str, PodAllocation | None]], mark: int) -> None:
        """The ledger was lost and is another one now. Nobody can resume across that; open watches see changes."""
        for uid, value in changed:
            self._apply(uid, value, mark)
        self.journal.begin(mark)

    def on_event(self, event: Event[PodAllocation]) -> None:
        self._apply(event.key, None if event.op is Op.DELETE else event.value, event.mark)

    def on_mark(self, mark: int) -> None:
        self.journal.advance(mark)

    def on_synced(self, synced: bool) -> None:
        """Stale or not, what is known is served."""

    def remember(self, history: LedgerHistory) -> None:
        """What the device manager still knows of before our time, for clients that resume."""
        entries = []
        for event in history.events:
            if event.mark <= self.journal.floor:
                action = Action.DELETED if event.deleted else Action.ADDED if event.new else Action.UPDATED
                entries.append(Entry(event.mark, pod_event(action, event.allocation)))
        if history.floor < self.journal.floor:
            self.journal.prepend(entries, history.floor)

    def listed(self) -> list[PodAllocation]:
        return sorted(self.pods.values(), key=lambda item: (item.namespace, item.name, item.uid))

    def find(self, namespace: str, name: str) -> PodAllocation | None:
        return next((item for item in self.listed() if (item.namespace, item.name) == (namespace, name)), None)

    def snapshot(self) -> Iterable[Entry]:
        """ADDED for every pod; they lead to no position until all are told."""
        return [Entry(0, pod_event(Action.ADDED, item)) for item in self.listed()]

    def _apply(self, uid: str, value: PodAllocation | None, position: int) -> None:
        old = self.pods.get(uid)
        message = _message(old, value)
        if value is None:
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = value
        if message is None:
            self.journal.advance(position)
            return
        entry = Entry(position, message)
        self.journal.append(entry)
        self.watchers.push(entry)


def _message(old: PodAllocation | None, new: PodAllocation | None) -> bytes | None:
    """What clients are told of a change; None when nothing they can see is different."""
    if new is None:
        return None if old is None else pod_event(Action.DELETED, old)
    if old is None:
        return pod_event(Action.ADDED, new)
    return None if pod(old) == pod(new) else pod_event(Action.UPDATED, new)
