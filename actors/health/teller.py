"""Which changes of a device's health become an event, and when. Pure: the caller gives the time in seconds.

A change is told at once, but for Unknown, which a restart of the device manager causes for a moment: it must last.
The first look at a device is an observation, no change. A flapping device has a few events, then one each REFILL_S.
"""

from dataclasses import dataclass, field

import msgspec

from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN

UNKNOWN_LASTS_S = 2.0
FIRST_UNKNOWN_LASTS_S = 15.0
BURST, REFILL_S = 4, 10.0
REASONS = {
    UNHEALTHY: ("Warning", "DeviceUnhealthy"),
    UNKNOWN: ("Warning", "DeviceHealthUnknown"),
    HEALTHY: ("Normal", "DeviceHealthy"),
}


class Subject(msgspec.Struct, frozen=True):
    """One device in one container of one pod."""

    uid: str
    container: str
    resource: str
    id: str


class Notice(msgspec.Struct, frozen=True):
    subject: Subject
    type: str
    reason: str
    message: str


@dataclass
class _Track:
    health: str
    message: str
    told: str
    due: float
    tokens: float = BURST
    refilled: float = 0.0


@dataclass
class Teller:
    """Bounded by what is allocated: `forget` a pod when its devices are free."""

    tracks: dict[Subject, _Track] = field(default_factory=dict)
    pending: set[Subject] = field(default_factory=set)

    def observe(self, subject: Subject, health: str, message: str, now: float) -> None:
        track = self.tracks.get(subject)
        if track is None:
            track = _Track(health, message, told=HEALTHY, due=now, refilled=now)
            track.due += FIRST_UNKNOWN_LASTS_S if health == UNKNOWN else 0.0
            self.tracks[subject] = track
        elif track.health != health:
            track.health, track.due = health, now + (UNKNOWN_LASTS_S if health == UNKNOWN else 0.0)
        track.message = message
        if track.health != track.told:
            self.pending.add(subject)
        else:
            self.pending.discard(subject)

    def forget(self, uid: str, kept: frozenset[Subject] = frozenset()) -> None:
        for subject in [s for s in self.tracks if s.uid == uid and s not in kept]:
            del self.tracks[subject]
            self.pending.discard(subject)

    def due(self, now: float) -> list[Notice]:
        """What is to be told now."""
        ready = sorted((s for s in self.pending if self._when(self.tracks[s], now) <= now), key=_order)
        return [self._tell(subject, now) for subject in ready]

    def next_due(self, now: float) -> float | None:
        """When `due` will have something; None while nothing waits."""
        return min((self._when(self.tracks[s], now) for s in self.pending), default=None)

    def _when(self, track: _Track, now: float) -> float:
        tokens = min(float(BURST), track.tokens + (now - track.refilled) / REFILL_S)
        return track.due if tokens >= 1 else max(track.due, now + (1 - tokens) * REFILL_S)

    def _tell(self, subject: Subject, now: float) -> Notice:
        track = self.tracks[subject]
        track.tokens = min(float(BURST), track.tokens + (now - track.refilled) / REFILL_S) - 1
        track.refilled, track.told = now, track.health
        self.pending.discard(subject)
        kind, reason = REASONS.get(track.health, REASONS[UNKNOWN])
        text = f"Device {subject.id} of {subject.resource} in container {subject.container} is {track.health}"
        if track.health == UNKNOWN:
            text = f"Health of device {subject.id} of {subject.resource} in container {subject.container} is unknown"
        return Notice(subject, kind, reason, f"{text}: {track.message}" if track.message else text)


def _order(subject: Subject) -> tuple[str, ...]:
    return subject.uid, subject.container, subject.resource, subject.id
