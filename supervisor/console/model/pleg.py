"""PLEG: its mode and switches, lifecycle events, and the time from an event to the pod's new status."""

from collections import deque

import msgspec

from protocols.bounded import BoundedMap
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from supervisor.console.model.history import Latencies, Rate, Series
from supervisor.console.model.metrics import Page, bucket_quantile

EVENTS, SWITCHES, DELETED = 100, 50, 200
WAITING = 1_000
"""Pods whose status is awaited; beyond it the oldest are given up."""
STATUS_S = 30.0
"""A status that comes later than this after an event has another cause."""
CHANGES_STATUS = frozenset(("ContainerStarted", "ContainerDied"))


class Seen(msgspec.Struct, frozen=True):
    """A lifecycle event with the time of its arrival."""

    at: float
    event: PodLifecycleEvent


class _Switch(msgspec.Struct, frozen=True):
    at: float
    mode: str
    why: str


class Pleg:
    """State of one node's pleg as the screen shows it; lists have fixed lengths."""

    def __init__(self) -> None:
        self.state = PlegState()
        self.synced = False
        self.events: deque[Seen] = deque(maxlen=EVENTS)
        self.switches: deque[_Switch] = deque(maxlen=SWITCHES)
        self.latency = Latencies()
        self.event_rate = Series()
        self.relist_rate = Series()
        self.missed = 0.0
        self.received = 0.0
        self.relists = 0.0
        self.relist_p50: float | None = None
        self.relist_p99: float | None = None
        self.deleted = BoundedMap[str, str](DELETED)
        """Names of deleted pods by uid, of which there may still be events."""
        self._waiting = BoundedMap[str, float](WAITING)
        self._events = Rate()
        self._relists = Rate()

    def switched(self, state: PlegState, now: float) -> None:
        if not self.switches or self.switches[-1].mode != state.mode:
            self.switches.append(_Switch(now, state.mode, state.why))
        self.state = state

    def happened(self, event: PodLifecycleEvent, now: float) -> None:
        self.events.append(Seen(now, event))
        if event.type in CHANGES_STATUS:
            began = self._waiting.get(event.uid)
            if began is None or now - began > STATUS_S:
                self._waiting[event.uid] = now

    def status_changed(self, uid: str, now: float) -> None:
        """Note that the API's watch showed a new status of a pod."""
        began = self._waiting.pop(uid, None)
        if began is not None and now - began <= STATUS_S:
            self.latency.add(now, now - began)

    def pod_deleted(self, uid: str, name: str) -> None:
        self._waiting.pop(uid, None)
        self.deleted[uid] = name

    def measured(self, page: Page, now: float) -> None:
        """Update rates and latencies from pleg's metrics."""
        self.missed = page.total("kube_pod_missed_events")
        self.received = page.total("evented_pleg_notifications_received")
        self.relists = page.total("kubelet_pleg_relist_duration_seconds_count")
        self.relist_p50 = bucket_quantile(page, "kubelet_pleg_relist_duration_seconds", 0.5)
        self.relist_p99 = bucket_quantile(page, "kubelet_pleg_relist_duration_seconds", 0.99)
        for rate, series, count in (
            (self._events, self.event_rate, self.received),
            (self._relists, self.relist_rate, self.relists),
        ):
            if (value := rate.of(now, count)) is not None:
                series.add(now, value)
