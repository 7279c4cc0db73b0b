"""Replica of the `allocatable` and `machine` streams, with its encoded response, journal and watchers.

Devices that change together, for example because their plugin disconnects, share one message per action. So do CPUs and
memory blocks.
"""

from collections.abc import Iterable
from itertools import groupby, islice

from actors.frontdoor.feeds.broadcast import EncodedEvent, Journal, Watchers
from actors.frontdoor.feeds.encoding import Action, allocatable_event, devices, memory
from protocols.bus import Event, Op, StreamSink
from protocols.messages.devices import AllocatedMemory, Device, Machine
from protocols.wire import podresources_v1_pb2 as v1

MAX_DEVICES_PER_MESSAGE = 1000
"""Far below the 4 MiB that gRPC clients accept by default."""


class AllocatableFeed(StreamSink[Device]):
    """A sink of the bus. Events up to one with a mark belong together and are applied in one step."""

    def __init__(self, journal: Journal, watchers: Watchers) -> None:
        self.devices: dict[str, Device] = {}
        self.machine = Machine()
        self.journal = journal
        self.watchers = watchers
        self._initialized = False
        self._pending: list[tuple[str, Device | None]] = []
        self._response: bytes | None = None

    def on_snapshot(self, items: list[tuple[str, Device]], mark: int) -> None:
        """Start from the first snapshot; turn later ones into the events that were missed."""
        fresh = dict(items)
        if not self._initialized:
            self._initialized = True
            self.devices = fresh
            self._response = None
            return
        self._pending = [(key, None) for key in self.devices if key not in fresh]
        self._pending += items
        self._apply_pending()

    def on_event(self, event: Event[Device]) -> None:
        self._pending.append((event.key, None if event.op is Op.DELETE else event.value))
        if event.mark:
            self._apply_pending()

    def listed(self) -> list[Device]:
        return list(self.devices.values())

    def response(self) -> bytes:
        """Return the encoded response of GetAllocatableResources, the same object until something changes."""
        if self._response is None:
            message = v1.AllocatableResourcesResponse(
                devices=devices(self.listed()), cpu_ids=sorted(self.machine.cpus), memory=memory(self.machine.memory)
            )
            self._response = message.SerializeToString(deterministic=True)
        return self._response

    def snapshot(self) -> Iterable[EncodedEvent]:
        messages = list(_device_messages(Action.ADDED, self.devices.values()))
        if self.machine != Machine():
            messages.append(allocatable_event(Action.ADDED, (), self.machine.cpus, self.machine.memory))
        return [EncodedEvent(0, message) for message in messages]

    def set_machine(self, new: Machine) -> None:
        """Replace CPUs and memory. DELETED is sent first, so that no replacement is ever counted twice."""
        old, self.machine = self.machine, new
        new_cpus, old_cpus = set(new.cpus), set(old.cpus)
        new_blocks, old_blocks = _by_node(new.memory), _by_node(old.memory)
        common = new_blocks.keys() & old_blocks.keys()
        for action, cpus, blocks in (
            (Action.DELETED, old_cpus - new_cpus, [old_blocks[key] for key in old_blocks.keys() - common]),
            (Action.ADDED, new_cpus - old_cpus, [new_blocks[key] for key in new_blocks.keys() - common]),
            (Action.UPDATED, set[int](), [new_blocks[key] for key in common if new_blocks[key] != old_blocks[key]]),
        ):
            if cpus or blocks:
                self._publish(allocatable_event(action, (), cpus, blocks))

    def _apply_pending(self) -> None:
        applied = [self._apply(key, device) for key, device in self._pending]
        self._pending = []
        visible = [change for change in applied if change is not None]
        for action, group in groupby(visible, key=lambda change: change[0]):
            for message in _device_messages(action, (device for _, device in group)):
                self._publish(message)

    def _apply(self, key: str, device: Device | None) -> tuple[Action, Device] | None:
        """Return the change, or None if clients cannot see a difference."""
        old = self.devices.pop(key, None)
        if device is None:
            return None if old is None else (Action.DELETED, old)
        self.devices[key] = device
        if old is None:
            return Action.ADDED, device
        return None if old.numa == device.numa else (Action.UPDATED, device)

    def _publish(self, message: bytes) -> None:
        self._response = None
        event = EncodedEvent(self.journal.position + 1, message)
        self.journal.append(event)
        self.watchers.push(event)


class MachineSink(StreamSink[Machine]):
    """Pass the single item of the `machine` stream on to the feed."""

    def __init__(self, feed: AllocatableFeed) -> None:
        self._feed = feed

    def on_snapshot(self, items: list[tuple[str, Machine]], mark: int) -> None:
        self._feed.set_machine(next((machine for _, machine in items), Machine()))

    def on_event(self, event: Event[Machine]) -> None:
        self._feed.set_machine(event.value or Machine())


def _by_node(blocks: Iterable[AllocatedMemory]) -> dict[tuple[str, tuple[int, ...]], AllocatedMemory]:
    return {(block.type, block.numa): block for block in blocks}


def _device_messages(action: Action, items: Iterable[Device]) -> Iterable[bytes]:
    rest = iter(items)
    while chunk := list(islice(rest, MAX_DEVICES_PER_MESSAGE)):
        yield allocatable_event(action, chunk)
