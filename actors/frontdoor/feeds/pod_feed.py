"""Replica of the `allocations` stream, with its encoded List response, journal and watchers.

Invariant: folding every event up to a position over an empty list gives exactly what List returns at that position,
but for init containers, which only the events show by default.
"""

from collections.abc import Callable, Iterable

from xxhash import xxh64_hexdigest, xxh64_intdigest

from actors.frontdoor.feeds.broadcast import EncodedEvent, Journal, Watchers
from actors.frontdoor.feeds.encoding import (
    GET_POD_FIELD,
    LIST_POD_FIELD,
    Action,
    V1alpha1Field,
    field,
    has_holding_inits,
    pod_bytes,
    pod_event,
    v1alpha1_field,
    v1alpha1_pod,
)
from protocols.bus import Event, Op
from protocols.messages.devices import MARK_SHIFT, LedgerHistory, PodAllocation

NEW_LEDGER_DISTANCE = 1 << MARK_SHIFT
"""Positions between two snapshots that no ledger can have advanced: the ledger is a new one."""

Change = tuple[str, PodAllocation | None]
"""Pod uid, and its new allocation or None."""


FINGERPRINT_VERSION = "pfp0v001"


def pod_hash(namespace: str, name: str) -> int:
    """Return the hash of a pod's name in the fingerprint of a list."""
    return xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode()))


def fingerprint(hashes: Iterable[int]) -> str:
    """Return the fingerprint of the pods with these hashes, in any order.

    Topology-aware schedulers compare it with the annotation topology.node.k8s.io/fingerprint.
    """
    whole = b"".join(one.to_bytes(8, "little") for one in sorted(hashes))
    return f"{FINGERPRINT_VERSION}{xxh64_hexdigest(whole)}"


class PodFeed:
    """A sink of the bus. Positions are the ledger's and survive restarts of this process and the device manager."""

    def __init__(
        self,
        journal: Journal,
        watchers: Watchers,
        on_synced_changed: Callable[[bool], None] = lambda synced: None,
        init_containers: str = "watch",
    ) -> None:
        """`init_containers`: where init containers that hold anything are shown, see Settings."""
        self.pods: dict[str, PodAllocation] = {}
        self.journal = journal
        self.watchers = watchers
        self._on_synced_changed = on_synced_changed
        self._watch_inits, self._list_inits = init_containers != "none", init_containers == "list"
        self._initialized = False
        self._encoded: dict[str, bytes] = {}
        """PodResources of each pod in the watch, by uid."""
        self._list: bytes | None = None
        """Cached List response; None after a change."""
        self._v1alpha1: list[V1alpha1Field] | None = None
        """Cached parts of v1alpha1's List; None after a change."""
        self._fingerprint: str | None = None
        """Cached fingerprint; None after a change."""

    def on_snapshot(self, items: list[tuple[str, PodAllocation]], mark: int) -> None:
        """Start from the first snapshot; turn later ones into the events that were missed, releases first."""
        fresh = dict(items)
        if not self._initialized:
            self._initialized = True
            self.pods = fresh
            self._encoded = {uid: self._pod_bytes(value) for uid, value in items}
            self._list = self._v1alpha1 = self._fingerprint = None
            self.journal.begin(mark)
            return
        changes: list[Change] = [(uid, None) for uid in self.pods if uid not in fresh]
        updates = [(uid, value) for uid, value in items if self.pods.get(uid) != value]
        # Pods that release come first, so that no device is in two pods after any single event.
        updates.sort(key=lambda change: _growth(self.pods.get(change[0]), change[1]))
        self._apply_missed([*changes, *updates], mark)

    def _apply_missed(self, changes: list[Change], mark: int) -> None:
        before = mark - len(changes)
        if 0 <= before - self.journal.position < NEW_LEDGER_DISTANCE:
            for position, (uid, value) in enumerate(changes, start=before + 1):
                self._apply(uid, value, position)
            self.journal.advance(mark)
            return
        # The ledger was lost and replaced. Open watches see the changes, but nobody can resume across this point.
        for uid, value in changes:
            self._apply(uid, value, mark)
        self.journal.begin(mark)

    def on_event(self, event: Event[PodAllocation]) -> None:
        self._apply(event.key, None if event.op is Op.DELETE else event.value, event.mark)

    def on_mark(self, mark: int) -> None:
        self.journal.advance(mark)

    def on_synced(self, synced: bool) -> None:
        """Report the change; a stale replica is served all the same."""
        self._on_synced_changed(synced)

    def prepend_history(self, history: LedgerHistory) -> None:
        """Add the device manager's events from before this process started, for clients that resume."""
        events = []
        for event in history.events:
            if event.mark <= self.journal.floor:
                action = Action.DELETED if event.deleted else Action.ADDED if event.new else Action.UPDATED
                message = pod_event(action, event.allocation, self._pod_bytes(event.allocation))
                events.append(EncodedEvent(event.mark, message))
        if history.floor < self.journal.floor:
            self.journal.prepend(events, history.floor)

    def listed(self) -> list[PodAllocation]:
        return sorted(self.pods.values(), key=lambda item: (item.namespace, item.name, item.uid))

    def list_response(self) -> bytes:
        """Return the encoded response of List, the same object until something changes."""
        if self._list is None:
            self._list = b"".join(field(LIST_POD_FIELD, self._listed_bytes(item)) for item in self.listed())
        return self._list

    def fingerprint(self) -> str:
        """Return the fingerprint of the pods that List returns."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(pod_hash(item.namespace, item.name) for item in self.pods.values())
        return self._fingerprint

    def get_response(self, namespace: str, name: str) -> bytes | None:
        """Return the encoded response of Get, or None if the pod holds nothing on this node.

        Of several pods of a name, as after a forced deletion, it is the one admitted last, as in kubelet.
        """
        pods = [item for item in self.pods.values() if item.name == name and item.namespace == namespace]
        return field(GET_POD_FIELD, self._listed_bytes(pods[-1])) if pods else None

    def v1alpha1_fields(self) -> list[V1alpha1Field]:
        """Return each pod's part of v1alpha1's List, the same object until something changes."""
        if self._v1alpha1 is None:
            self._v1alpha1 = [v1alpha1_field(v1alpha1_pod(item)) for item in self.listed()]
        return self._v1alpha1

    def snapshot(self) -> Iterable[EncodedEvent]:
        """Return an ADDED event for every pod, without a position: only the whole snapshot has one."""
        return [EncodedEvent(0, pod_event(Action.ADDED, item, self._encoded[item.uid])) for item in self.listed()]

    def _pod_bytes(self, allocation: PodAllocation) -> bytes:
        return pod_bytes(allocation, inits=self._watch_inits)

    def _listed_bytes(self, allocation: PodAllocation) -> bytes:
        if self._watch_inits and not self._list_inits and has_holding_inits(allocation):
            return pod_bytes(allocation)
        return self._encoded[allocation.uid]

    def _apply(self, uid: str, value: PodAllocation | None, position: int) -> None:
        old = self.pods.pop(uid, None) if value is None else self.pods.get(uid)
        encoded_before = self._encoded.pop(uid, b"")
        if value is not None:
            self.pods[uid] = value
            self._encoded[uid] = self._pod_bytes(value)
        message = _event_message(old, value, encoded_before, self._encoded.get(uid, b""))
        if message is None:
            self.journal.advance(position)
            return
        self._list = self._v1alpha1 = self._fingerprint = None
        event = EncodedEvent(position, message)
        self.journal.append(event)
        self.watchers.push(event)


def _growth(old: PodAllocation | None, new: PodAllocation) -> tuple[bool, int]:
    """Return a sort key: pods that release resources first, new pods last."""
    return old is None, _resource_count(new) - (_resource_count(old) if old else 0)


def _resource_count(pod: PodAllocation) -> int:
    claimed = sum(len(claim.devices) for item in pod.containers for claim in item.claims)
    return claimed + sum(len(item.devices) + len(item.cpus) + len(item.memory) for item in pod.containers)


def _event_message(old: PodAllocation | None, new: PodAllocation | None, before: bytes, after: bytes) -> bytes | None:
    """Return the watch message of a change, or None if clients cannot see a difference."""
    if new is None:
        return None if old is None else pod_event(Action.DELETED, old, b"")
    if old is None:
        return pod_event(Action.ADDED, new, after)
    return None if before == after else pod_event(Action.UPDATED, new, after)
