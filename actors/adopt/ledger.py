"""What was told of kubelet's pods and of what it could allocate: the streams that the front door follows."""

from collections.abc import Iterable

from actors.adopt.diff import Step
from actors.adopt.record import Record
from protocols.bus import Bus, Op, StateSource
from protocols.ledger import AllocationSource, History
from protocols.messages import devices as messages
from protocols.messages.devices import Device, LedgerEvent, LedgerHistory, Machine, PodAllocation, first_mark


class Ledger:
    """Invariant: what is told of pods is on disk (`record`) before it is published, so no position has two events."""

    def __init__(self, bus: Bus, now_ns: int) -> None:
        self.pods: dict[str, PodAllocation] = {}
        self.devices: dict[str, Device] = {}
        self._machine: dict[str, Machine] = {}
        self._bus = bus
        self._history = History(first_mark(now_ns))
        self._batch = 0
        self._owned = False

    def restore(self, record: Record) -> None:
        """What an earlier life told; before `begin`."""
        self.pods = {pod.uid: pod for pod in record.pods}
        self._history = History(record.mark, record.recent)

    def begin(self, devices: dict[str, Device], machine: Machine) -> None:
        """The first look: from now on there are streams."""
        self.devices, self._machine = devices, {messages.NODE: machine}
        self._owned = True
        own = self._bus.own
        source = AllocationSource(self.pods, self._history)
        self._allocations = own(messages.ALLOCATIONS, source, mark=self._history.mark)
        self._allocatable = own(messages.ALLOCATABLE, StateSource(self.devices))
        self._machines = own(messages.MACHINE, StateSource(self._machine), ring=16)

    @property
    def begun(self) -> bool:
        return self._owned

    def history(self) -> LedgerHistory:
        return self._history.told()

    def events(self, steps: Iterable[Step]) -> list[LedgerEvent]:
        """The steps with the positions they will have."""
        known, told = dict(self.pods), list[LedgerEvent]()
        for step in steps:
            old = known.pop(step.uid, None)
            shown = step.allocation or old
            if shown is None:
                continue
            if step.allocation is not None:
                known[step.uid] = step.allocation
            mark = self._history.mark + len(told) + 1
            told.append(LedgerEvent(mark, shown, new=old is None, deleted=step.allocation is None))
        return told

    def record(self, events: list[LedgerEvent]) -> Record:
        """What stands on disk once these are told."""
        pods = dict(self.pods)
        for event in events:
            _apply(pods, event)
        return Record(self._history.mark + len(events), tuple(pods.values()), self._history.kept(events))

    def tell(self, events: list[LedgerEvent]) -> None:
        for event in events:
            self._history.append(event)
            _apply(self.pods, event)
            if self._owned:
                self._publish(event)

    def _publish(self, event: LedgerEvent) -> None:
        if event.deleted:
            self._allocations.publish(Op.DELETE, event.allocation.uid, b"", mark=event.mark)
        else:
            self._allocations.publish(Op.UPSERT, event.allocation.uid, event.allocation, mark=event.mark)

    def allocatable(self, devices: dict[str, Device], machine: Machine) -> None:
        """What is gone is told before what came; the last event of a change carries the mark."""
        gone = [key for key in self.devices if key not in devices]
        came = [key for key, device in devices.items() if self.devices.get(key) != device]
        if gone or came:
            self._batch += 1
        for number, key in enumerate((*gone, *came), start=1):
            mark = self._batch if number == len(gone) + len(came) else 0
            if key in devices:
                self.devices[key] = devices[key]
                self._allocatable.publish(Op.UPSERT, key, devices[key], mark=mark)
            else:
                del self.devices[key]
                self._allocatable.publish(Op.DELETE, key, b"", mark=mark)
        if self._machine[messages.NODE] != machine:
            self._machine[messages.NODE] = machine
            self._machines.publish(Op.UPSERT, messages.NODE, machine)


def _apply(pods: dict[str, PodAllocation], event: LedgerEvent) -> None:
    if event.deleted:
        del pods[event.allocation.uid]
    else:
        pods[event.allocation.uid] = event.allocation
