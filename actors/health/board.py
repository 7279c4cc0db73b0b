"""What is published of each pod, brought up to date as devices and pods change, each pod at its own pace. Pure."""

from collections.abc import Mapping

import msgspec

from actors.health.aggregate import Healths, Holders, pod_status, reported_ns
from actors.health.pacer import Pacer
from protocols.messages.health import PodResourceStatus
from protocols.messages.held import PodHeld

Changes = dict[str, PodResourceStatus | None]
"""By pod uid; None: nothing to show any more."""


class Board:
    """`published` is the stream's state. Changes are collected as dirty pods and settled together; a pod that changed
    too often waits, however much happens meanwhile, and shows the latest when its time has come."""

    def __init__(self, held: Mapping[str, PodHeld], health: Healths, rate: float) -> None:
        self._held = held
        self._health = health
        self._holders = Holders()
        self._pacer = Pacer(rate)
        self._dirty: set[str] = set()
        self._waiting: dict[str, float] = {}
        self.published: dict[str, PodResourceStatus] = {}
        self.put_off = 0
        """Changes that found their pod waiting: they cost nobody a write."""

    def held_changed(self, uid: str) -> None:
        """A pod began, ended or came to hold something else: that is never put off."""
        self._holders.update(uid, self._held.get(uid) or PodHeld())
        self._waiting.pop(uid, None)
        self._dirty.add(uid)

    def health_changed(self, key: str) -> None:
        for uid in self._holders.of(key):
            if uid in self._waiting:
                self.put_off += 1
            else:
                self._dirty.add(uid)

    def next_due(self) -> float | None:
        """When a pod that waits may change; None: none waits."""
        return min(self._waiting.values(), default=None)

    def settle(self, now: float) -> Changes:
        """What became different since the last time and may be told by now."""
        for uid in [uid for uid, due in self._waiting.items() if due <= now]:
            del self._waiting[uid]
            self._dirty.add(uid)
        changes: Changes = {}
        for uid in sorted(self._dirty):
            self._settle(uid, now, changes)
        self._dirty.clear()
        return changes

    def _settle(self, uid: str, now: float, changes: Changes) -> None:
        old, held = self.published.get(uid), self._held.get(uid)
        if not held:
            self._pacer.forget(uid)
            if old is not None:
                del self.published[uid]
                changes[uid] = None
            return
        new = pod_status(uid, held, self._health)
        if old is not None and (old.containers, old.pod) == (new.containers, new.pod):
            return
        ready = self._pacer.ready(uid, now)
        if ready > now and old is not None and _same_devices(old, new):
            self._waiting[uid] = ready
            return
        self._pacer.take(uid, now)
        new = msgspec.structs.replace(new, reported_ns=reported_ns(new, old, self._health))
        self.published[uid] = changes[uid] = new


def _same_devices(one: PodResourceStatus, other: PodResourceStatus) -> bool:
    return _names(one) == _names(other)


def _names(status: PodResourceStatus) -> list[tuple[str, str, tuple[str, ...]]]:
    scopes = [*status.containers.items(), ("", status.pod)]
    return [(scope, e.name, tuple(d.resourceID for d in e.resources)) for scope, entries in scopes for e in entries]
