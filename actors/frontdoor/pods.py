"""The pods' side: a replica of the `allocations` stream, its journal and its watchers, all moved in one step.

Invariant: folding every event up to a position over nothing gives exactly what List answers at that position.
"""

from collections.abc import Callable, Iterable

from actors.frontdoor.encode import GOT_POD, LISTED_POD, old_pod, pod_bytes, pod_event
from actors.frontdoor.framing import field
from actors.frontdoor.journal import Journal
from actors.frontdoor.types import Action, Entry
from actors.frontdoor.watchers import Watchers
from protocols.bus import Event, Op
from protocols.messages.devices import MARK_SHIFT, LedgerHistory, PodAllocation
from protocols.podresources.fingerprint import fingerprint, pod_hash
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1

JUMP = 1 << MARK_SHIFT
"""No ledger gets this far while a follower looks away: it is another one."""


class PodFeed:
    """A sink of the bus. Positions are the ledger's own, so they outlive this process and the device manager."""

    def __init__(self, journal: Journal, watchers: Watchers) -> None:
        self.pods: dict[str, PodAllocation] = {}
        self.journal = journal
        self.watchers = watchers
        self.on_stale: Callable[[bool], None] = lambda synced: None
        self._begun = False
        self._shown: dict[str, bytes] = {}
        """Each pod as List shows it, encoded once."""
        self._list: bytes | None = None
        self._fingerprint: str | None = None
        """List's whole reply and the pods' fingerprint; None after a change."""

    def on_snapshot(self, items: list[tuple[str, PodAllocation]], mark: int) -> None:
        """The first one is where we begin; a later one is told as its difference, what is gone before what came."""
        fresh = dict(items)
        if not self._begun:
            self._begun = True
            self.pods = fresh
            self._shown = {uid: pod_bytes(value) for uid, value in items}
            self._list = self._fingerprint = None
            self.journal.begin(mark)
            return
        changed: list[tuple[str, PodAllocation | None]] = [(uid, None) for uid in self.pods if uid not in fresh]
        other = [(uid, value) for uid, value in items if self.pods.get(uid) != value]
        other.sort(key=lambda change: _growth(self.pods.get(change[0]), change[1]))
        changed += other
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
        """Stale or not, what is known is served; health tells the difference."""
        self.on_stale(synced)

    def remember(self, history: LedgerHistory) -> None:
        """What the device manager still knows of before our time, for clients that resume."""
        entries = []
        for event in history.events:
            if event.mark <= self.journal.floor:
                action = Action.DELETED if event.deleted else Action.ADDED if event.new else Action.UPDATED
                told = pod_event(action, event.allocation, pod_bytes(event.allocation))
                entries.append(Entry(event.mark, told))
        if history.floor < self.journal.floor:
            self.journal.prepend(entries, history.floor)

    def listed(self) -> list[PodAllocation]:
        return sorted(self.pods.values(), key=lambda item: (item.namespace, item.name, item.uid))

    def list_reply(self) -> bytes:
        """List's answer, the same bytes until something changes."""
        if self._list is None:
            self._list = b"".join(field(LISTED_POD, self._shown[item.uid]) for item in self.listed())
        return self._list

    def fingerprint(self) -> str:
        """Of the pods that List shows now."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(pod_hash(item.namespace, item.name) for item in self.pods.values())
        return self._fingerprint

    def get_reply(self, namespace: str, name: str) -> bytes | None:
        """Get's answer; None for a pod that holds nothing here."""
        found = [uid for uid, item in self.pods.items() if item.name == name and item.namespace == namespace]
        return field(GOT_POD, self._shown[min(found)]) if found else None

    def old_list(self) -> list[v1alpha1.PodResources]:
        return [old_pod(item) for item in self.listed()]

    def snapshot(self) -> Iterable[Entry]:
        """ADDED for every pod; they lead to no position until all are told."""
        return [Entry(0, pod_event(Action.ADDED, item, self._shown[item.uid])) for item in self.listed()]

    def _apply(self, uid: str, value: PodAllocation | None, position: int) -> None:
        old = self.pods.pop(uid, None) if value is None else self.pods.get(uid)
        seen = self._shown.pop(uid, b"")
        if value is not None:
            self.pods[uid] = value
            self._shown[uid] = pod_bytes(value)
        message = _message(old, value, seen, self._shown.get(uid, b""))
        if message is None:
            self.journal.advance(position)
            return
        self._list = self._fingerprint = None
        entry = Entry(position, message)
        self.journal.append(entry)
        self.watchers.push(entry)


def _growth(old: PodAllocation | None, new: PodAllocation) -> tuple[bool, int]:
    """What gives back comes before what takes, and pods that are new come last."""
    return old is None, _held(new) - (_held(old) if old else 0)


def _held(pod: PodAllocation) -> int:
    claimed = sum(len(claim.devices) for item in pod.containers for claim in item.claims)
    return claimed + sum(len(item.devices) + len(item.cpus) + len(item.memory) for item in pod.containers)


def _message(old: PodAllocation | None, new: PodAllocation | None, before: bytes, after: bytes) -> bytes | None:
    """What clients are told of a change; None when nothing they can see is different."""
    if new is None:
        return None if old is None else pod_event(Action.DELETED, old, b"")
    if old is None:
        return pod_event(Action.ADDED, new, after)
    return None if before == after else pod_event(Action.UPDATED, new, after)
