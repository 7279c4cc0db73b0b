"""The published state of kubelet's pods and allocatable resources: streams on the bus, and a file that outlives us."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from actors.adopt.allocation_diff import AllocationStep
from actors.adopt.errors import StateFileCorrupt, StateNotPersisted
from protocols.bus import Bus, Op, StateSource
from protocols.messages import devices as messages
from protocols.messages.allocation_history import AllocationHistory, AllocationSource
from protocols.messages.devices import Device, LedgerEvent, LedgerHistory, Machine, PodAllocation, first_mark
from protocols.process.files import UNREADABLE, SealBroken, read_state, seal, set_aside, unseal, write_atomic

VERSION = 1
FILE_NAME = "adopted.json"


class StoredState(msgspec.Struct, frozen=True):
    """Content of the state file."""

    mark: int
    pods: tuple[PodAllocation, ...] = ()
    recent: tuple[LedgerEvent, ...] = ()
    version: int = VERSION


class StateFile:
    """The file of the published state. Methods block: call them in a thread once the event loop runs."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def load(self) -> tuple[StoredState | None, str]:
        """Return the stored state, or None if there is none to use; and a warning, or ""."""
        try:
            return decode(read_state(self.path)), ""
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return None, f"cannot read {self.path}: {error.strerror}; positions begin anew"
        except StateFileCorrupt as error:
            with contextlib.suppress(OSError):
                set_aside(self.path)
            renamed = f"{self.path.name}.corrupt"
            return None, f"{self.path} is corrupt: {error}; it is retained as {renamed}, positions begin anew"

    def save(self, state: StoredState) -> str:
        """Write the state and return a warning, or "".

        If the write fails, the old file is removed: a restart must not give positions that are published from now on to
        other events.

        Raises:
            StateNotPersisted: The old file cannot be removed either.
        """
        try:
            write_atomic(self.path, seal(msgspec.json.encode(state)))
        except OSError as error:
            self._remove(error.strerror or str(error))
            return f"cannot write {self.path}: {error.strerror}; a restart of adopt would begin with new positions"
        return ""

    def _remove(self, write_error: str) -> None:
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            raise StateNotPersisted(
                f"cannot write {self.path}: {write_error}; nothing is published until it can be written"
            ) from None


def decode(raw: bytes) -> StoredState:
    """Raises StateFileCorrupt."""
    try:
        state = msgspec.json.decode(unseal(raw), type=StoredState)
    except (SealBroken, *UNREADABLE) as error:
        raise StateFileCorrupt(str(error)) from None
    if state.version != VERSION:
        raise StateFileCorrupt(f"it has version {state.version}, this program reads {VERSION}")
    return state


class PublishedState:
    """The pods and allocatable resources as followers know them.

    Invariant: events of pods are on disk (`stored_after`) before they are published, so no position has two events.
    """

    def __init__(self, bus: Bus, now_ns: int) -> None:
        self.pods: dict[str, PodAllocation] = {}
        self.devices: dict[str, Device] = {}
        self._machine: dict[str, Machine] = {}
        self._bus = bus
        self._history = AllocationHistory(first_mark(now_ns))
        self._allocatable_mark = 0
        self._owns_streams = False

    def restore(self, state: StoredState) -> None:
        """Continue from the state that was published before a restart. Call it before `own_streams`."""
        self.pods = {pod.uid: pod for pod in state.pods}
        self._history = AllocationHistory(state.mark, state.recent)

    def own_streams(self, devices: dict[str, Device], machine: Machine) -> None:
        """Start publishing, once the first list is complete."""
        self.devices, self._machine = devices, {messages.NODE: machine}
        self._owns_streams = True
        own = self._bus.own
        source = AllocationSource(self.pods, self._history)
        self._allocation_stream = own(messages.ALLOCATIONS, source, mark=self._history.mark)
        self._allocatable_stream = own(messages.ALLOCATABLE, StateSource(self.devices))
        self._machine_stream = own(messages.MACHINE, StateSource(self._machine), ring=16)

    @property
    def owns_streams(self) -> bool:
        return self._owns_streams

    def history(self) -> LedgerHistory:
        return self._history.as_message()

    def events(self, steps: Iterable[AllocationStep]) -> list[LedgerEvent]:
        """Return the steps as events with their future positions."""
        pods, events = dict(self.pods), list[LedgerEvent]()
        for step in steps:
            old = pods.pop(step.uid, None)
            allocation = step.allocation or old
            if allocation is None:
                continue
            if step.allocation is not None:
                pods[step.uid] = step.allocation
            mark = self._history.mark + len(events) + 1
            events.append(LedgerEvent(mark, allocation, new=old is None, deleted=step.allocation is None))
        return events

    def stored_after(self, events: list[LedgerEvent]) -> StoredState:
        """Return what the state file must hold before `events` are published."""
        pods = dict(self.pods)
        for event in events:
            _apply(pods, event)
        return StoredState(self._history.mark + len(events), tuple(pods.values()), self._history.retained(events))

    def publish_pods(self, events: list[LedgerEvent]) -> None:
        for event in events:
            self._history.append(event)
            _apply(self.pods, event)
            if self._owns_streams:
                self._publish(event)

    def _publish(self, event: LedgerEvent) -> None:
        if event.deleted:
            self._allocation_stream.publish(Op.DELETE, event.allocation.uid, b"", mark=event.mark)
        else:
            self._allocation_stream.publish(Op.UPSERT, event.allocation.uid, event.allocation, mark=event.mark)

    def publish_allocatable(self, devices: dict[str, Device], machine: Machine) -> None:
        """Publish the difference, removals first. The last event of one change carries the mark."""
        removed = [key for key in self.devices if key not in devices]
        changed = [key for key, device in devices.items() if self.devices.get(key) != device]
        if removed or changed:
            self._allocatable_mark += 1
        for number, key in enumerate((*removed, *changed), start=1):
            mark = self._allocatable_mark if number == len(removed) + len(changed) else 0
            if key in devices:
                self.devices[key] = devices[key]
                self._allocatable_stream.publish(Op.UPSERT, key, devices[key], mark=mark)
            else:
                del self.devices[key]
                self._allocatable_stream.publish(Op.DELETE, key, b"", mark=mark)
        if self._machine[messages.NODE] != machine:
            self._machine[messages.NODE] = machine
            self._machine_stream.publish(Op.UPSERT, messages.NODE, machine)


def _apply(pods: dict[str, PodAllocation], event: LedgerEvent) -> None:
    if event.deleted:
        del pods[event.allocation.uid]
    else:
        pods[event.allocation.uid] = event.allocation
