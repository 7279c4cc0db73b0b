"""Which changes of a device's health become an event, and when. Pure: the caller gives the time in seconds.

A change is told at once, but for Unknown, which a restart of the device manager causes for a moment: it must last.
The first look at a device is an observation, no change. Devices of a pod that change alike share an event; a pod whose
devices flap has a few events, then one each REFILL_S, and the whole node no more than NODE_RATE a second.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN
from protocols.messages.held import CLAIM
from protocols.pace import Bucket

UNKNOWN_LASTS_S = 2.0
FIRST_UNKNOWN_LASTS_S = 15.0
BURST, REFILL_S = 6, 10.0
NODE_BURST, NODE_RATE = 100, 10.0
NAMED = 8
"""Devices an event names; of more it gives the number."""
REASONS = {
    UNHEALTHY: ("Warning", "DeviceUnhealthy"),
    UNKNOWN: ("Warning", "DeviceHealthUnknown"),
    HEALTHY: ("Normal", "DeviceHealthy"),
}


class Subject(msgspec.Struct, frozen=True):
    """One device in one container of one pod; no container: the pod's own."""

    uid: str
    container: str
    resource: str
    id: str


class Notice(msgspec.Struct, frozen=True):
    uid: str
    container: str
    type: str
    reason: str
    message: str


class _Alike(msgspec.Struct, frozen=True):
    """What devices that share an event have in common."""

    container: str
    resource: str
    health: str
    message: str


@dataclass
class _Track:
    health: str
    message: str
    told: str
    due: float


@dataclass
class _Pod:
    bucket: Bucket
    tracks: dict[Subject, _Track] = field(default_factory=dict)
    pending: set[Subject] = field(default_factory=set)

    def ready(self, now: float) -> float:
        """When its next event may be told, as far as it alone decides. It has pending ones."""
        return max(self.bucket.ready(now), min(self.tracks[subject].due for subject in self.pending))


class Teller:
    """Bounded by what is allocated: `forget` a pod when its devices are free."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}
        self._node = Bucket(NODE_RATE, NODE_BURST, NODE_BURST, 0.0)
        self._pending: dict[str, None] = {}
        """Pods that have something to tell, in the order they came to have it."""

    def __len__(self) -> int:
        return sum(len(pod.tracks) for pod in self._pods.values())

    def observe(self, subject: Subject, health: str, message: str, now: float, over: bool = False) -> None:
        """`over`: the pod is; what such a one shows at the first look was told while it ran."""
        if _unheard(subject, health, message) and subject not in self._tracks(subject.uid):
            return
        pod = self._pods.setdefault(subject.uid, _Pod(Bucket(1 / REFILL_S, BURST, BURST, now)))
        track = pod.tracks.get(subject)
        if track is None:
            wait = FIRST_UNKNOWN_LASTS_S if health == UNKNOWN else 0.0
            told = health if over else HEALTHY
            track = pod.tracks[subject] = _Track(health, message, told=told, due=now + wait)
        elif track.health != health:
            track.health, track.due = health, now + (UNKNOWN_LASTS_S if health == UNKNOWN else 0.0)
        track.message = message
        if track.health != track.told:
            pod.pending.add(subject)
            self._pending.setdefault(subject.uid)
        else:
            self._quiet(subject.uid, pod, (subject,))

    def _tracks(self, uid: str) -> Collection[Subject]:
        return self._pods[uid].tracks if uid in self._pods else ()

    def forget(self, uid: str, kept: frozenset[Subject] = frozenset()) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            return
        gone = [subject for subject in pod.tracks if subject not in kept]
        for subject in gone:
            del pod.tracks[subject]
        self._quiet(uid, pod, gone)
        if not pod.tracks:
            del self._pods[uid]

    def due(self, now: float) -> list[Notice]:
        """What is to be told now. A pod that was told of goes behind those that wait."""
        told: list[Notice] = []
        for uid in list(self._pending):
            pod = self._pods[uid]
            while pod.pending and pod.ready(now) <= now and self._node.ready(now) <= now:
                told.append(self._tell(uid, pod, now))
                self._pending.pop(uid, None)
                if pod.pending:
                    self._pending[uid] = None
        return told

    def next_due(self, now: float) -> float | None:
        """When `due` will have something; None while nothing waits."""
        first = min((self._pods[uid].ready(now) for uid in self._pending), default=None)
        return None if first is None else max(first, self._node.ready(now))

    def _quiet(self, uid: str, pod: _Pod, subjects: Iterable[Subject]) -> None:
        pod.pending.difference_update(subjects)
        if not pod.pending:
            self._pending.pop(uid, None)

    def _tell(self, uid: str, pod: _Pod, now: float) -> Notice:
        """The devices that changed alike, the first of them in name being the first of all."""
        groups: dict[_Alike, list[str]] = defaultdict(list)
        ripe = sorted((s for s in pod.pending if pod.tracks[s].due <= now), key=_order)
        for subject in ripe:
            groups[_alike(subject, pod.tracks[subject])].append(subject.id)
        alike, ids = next(iter(groups.items()))
        for subject in ripe:
            if subject.id in ids and _alike(subject, pod.tracks[subject]) == alike:
                pod.tracks[subject].told = alike.health
                pod.pending.discard(subject)
        pod.bucket.take(now)
        self._node.take(now)
        kind, reason = REASONS.get(alike.health, REASONS[UNKNOWN])
        return Notice(uid, alike.container, kind, reason, _text(alike, ids))


def _unheard(subject: Subject, health: str, message: str) -> bool:
    """A driver need not tell of health at all, and most do not: that is nothing to warn of. (A device plugin does.)"""
    return health == UNKNOWN and not message and subject.resource.startswith(CLAIM)


def _alike(subject: Subject, track: _Track) -> _Alike:
    return _Alike(subject.container, subject.resource, track.health, track.message)


def _text(alike: _Alike, ids: list[str]) -> str:
    many = len(ids) > 1
    named = ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")
    where = f" in container {alike.container}" if alike.container else ""
    devices = f"evice{'s' * many} {named} of {alike.resource}{where}"
    if alike.health == UNKNOWN:
        text = f"Health of d{devices} is unknown"
    else:
        text = f"D{devices} {'are' if many else 'is'} {alike.health}"
    return f"{text}: {alike.message}" if alike.message else text


def _order(subject: Subject) -> tuple[str, ...]:
    return subject.container, subject.resource, subject.id
