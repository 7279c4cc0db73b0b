"""The side of allocatable resources: a replica of the `allocatable` and `machine` streams, one journal, its watchers.

Devices that change together (a plugin goes away) are told together, in one message per action; so are CPUs and memory.
"""

from collections.abc import Iterable
from itertools import groupby, islice

from actors.frontdoor.encode import allocatable_event, devices, memory
from actors.frontdoor.journal import Journal
from actors.frontdoor.types import Action, Entry
from actors.frontdoor.watchers import Watchers
from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedMemory, Device, Machine
from protocols.wire import podresources_v1_pb2 as v1

CHUNK = 1000
"""Devices in one message: far from a client's default limit of 4 MiB."""


class AllocatableFeed:
    """A sink of the bus. Events up to one with a mark belong together: they are shown and told in one step."""

    def __init__(self, journal: Journal, watchers: Watchers) -> None:
        self.devices: dict[str, Device] = {}
        self.machine = Machine()
        self.journal = journal
        self.watchers = watchers
        self._begun = False
        self._pending: list[tuple[str, Device | None]] = []
        self._reply: bytes | None = None

    def on_snapshot(self, items: list[tuple[str, Device]], mark: int) -> None:
        fresh = dict(items)
        if not self._begun:
            self._begun = True
            self.devices = fresh
            self._reply = None
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

    def reply(self) -> bytes:
        """GetAllocatableResources' answer, the same bytes until something changes."""
        if self._reply is None:
            message = v1.AllocatableResourcesResponse(
                devices=devices(self.listed()), cpu_ids=sorted(self.machine.cpus), memory=memory(self.machine.memory)
            )
            self._reply = message.SerializeToString(deterministic=True)
        return self._reply

    def snapshot(self) -> Iterable[Entry]:
        messages = list(_messages(Action.ADDED, self.devices.values()))
        if self.machine != Machine():
            messages.append(allocatable_event(Action.ADDED, (), self.machine.cpus, self.machine.memory))
        return [Entry(0, message) for message in messages]

    def flush(self) -> None:
        changes = [self._apply(key, device) for key, device in self._pending]
        self._pending = []
        real = [change for change in changes if change is not None]
        for action, run in groupby(real, key=lambda change: change[0]):
            for message in _messages(action, (device for _, device in run)):
                self._tell(message)

    def change_machine(self, new: Machine) -> None:
        """What is gone is told first, so no replacement ever counts twice."""
        old, self.machine = self.machine, new
        cpus, were = set(new.cpus), set(old.cpus)
        blocks, had = _by_place(new.memory), _by_place(old.memory)
        both = blocks.keys() & had.keys()
        for action, ids, places in (
            (Action.DELETED, were - cpus, [had[key] for key in had.keys() - both]),
            (Action.ADDED, cpus - were, [blocks[key] for key in blocks.keys() - both]),
            (Action.UPDATED, set[int](), [blocks[key] for key in both if blocks[key] != had[key]]),
        ):
            if ids or places:
                self._tell(allocatable_event(action, (), ids, places))

    def _tell(self, message: bytes) -> None:
        self._reply = None
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


class MachineSink:
    """The `machine` stream's one item, passed on to the feed."""

    def __init__(self, feed: AllocatableFeed) -> None:
        self._feed = feed

    def on_snapshot(self, items: list[tuple[str, Machine]], mark: int) -> None:
        self._feed.change_machine(next((machine for _, machine in items), Machine()))

    def on_event(self, event: Event[Machine]) -> None:
        self._feed.change_machine(event.value or Machine())

    def on_mark(self, mark: int) -> None:
        """This stream has no durable positions."""

    def on_synced(self, synced: bool) -> None:
        """Stale or not, what is known is served."""


def _by_place(blocks: Iterable[AllocatedMemory]) -> dict[tuple[str, tuple[int, ...]], AllocatedMemory]:
    return {(block.type, block.numa): block for block in blocks}


def _messages(action: Action, items: Iterable[Device]) -> Iterable[bytes]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield allocatable_event(action, chunk)
