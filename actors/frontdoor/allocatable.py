"""The side of allocatable resources: a replica of the `allocatable` stream, its journal and its watchers.

Devices that change together (a plugin goes away) are told together, in one message per action.
"""

from collections.abc import Iterable
from itertools import groupby, islice

from actors.frontdoor.encode import allocatable_event
from actors.frontdoor.journal import Journal
from actors.frontdoor.types import Action, Entry
from actors.frontdoor.watchers import Watchers
from protocols.bus import Event, Op
from protocols.messages.devices import Device

CHUNK = 1000
"""Devices in one message: far from a client's default limit of 4 MiB."""


class AllocatableFeed:
    """A sink of the bus. Events up to one with a mark belong together: they are shown and told in one step."""

    def __init__(self, journal: Journal, watchers: Watchers) -> None:
        self.devices: dict[str, Device] = {}
        self.journal = journal
        self.watchers = watchers
        self._begun = False
        self._pending: list[tuple[str, Device | None]] = []

    def on_snapshot(self, items: list[tuple[str, Device]], mark: int) -> None:
        fresh = dict(items)
        if not self._begun:
            self._begun = True
            self.devices = fresh
            return
        self._pending = [(key, None) for key in self.devices if key not in fresh]
        self._pending += items
        self.flush()

    def on_event(self, event: Event[Device]) -> None:
        self._pending.append((event.key, None if event.op is Op.DELETE else event.value))
        if event.mark:
            self.flush()

    def on_mark(self, mark: int) -> None:
        """This stream has no durable positions."""

    def on_synced(self, synced: bool) -> None:
        """Stale or not, what is known is served."""

    def listed(self) -> list[Device]:
        return list(self.devices.values())

    def snapshot(self) -> Iterable[Entry]:
        return [Entry(0, message) for message in _messages(Action.ADDED, self.devices.values())]

    def flush(self) -> None:
        changes = [self._apply(key, device) for key, device in self._pending]
        self._pending = []
        real = [change for change in changes if change is not None]
        for action, run in groupby(real, key=lambda change: change[0]):
            for message in _messages(action, (device for _, device in run)):
                entry = Entry(self.journal.position + 1, message)
                self.journal.append(entry)
                self.watchers.push(entry)

    def _apply(self, key: str, device: Device | None) -> tuple[Action, Device] | None:
        """None when clients can see no difference."""
        old = self.devices.pop(key, None)
        if device is None:
            return None if old is None else (Action.DELETED, old)
        self.devices[key] = device
        if old is None:
            return Action.ADDED, device
        return None if old.numa == device.numa else (Action.UPDATED, device)


def _messages(action: Action, devices: Iterable[Device]) -> Iterable[bytes]:
    rest = iter(devices)
    while chunk := list(islice(rest, CHUNK)):
        yield allocatable_event(action, chunk)
