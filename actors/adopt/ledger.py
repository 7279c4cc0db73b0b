"""What was told of kubelet's pods and of what it could allocate: the streams that the front door follows."""

from collections import deque

from actors.adopt.diff import Step
from protocols.bus import Bus, Op, StateSource
from protocols.messages import devices as messages
from protocols.messages.devices import Device, LedgerEvent, LedgerHistory, Machine, PodAllocation, first_mark

KEPT = 4096
"""Events for a front door that starts anew."""


class Ledger:
    """Positions begin anew with each life of this process: what was told before is not kept on disk."""

    def __init__(self, bus: Bus, now_ns: int) -> None:
        self.pods: dict[str, PodAllocation] = {}
        self.devices: dict[str, Device] = {}
        self._machine: dict[str, Machine] = {}
        self._bus = bus
        self._mark = self._floor = first_mark(now_ns)
        self._batch = 0
        self._events: deque[LedgerEvent] = deque(maxlen=KEPT)
        self._owned = False

    def begin(self, pods: dict[str, PodAllocation], devices: dict[str, Device], machine: Machine) -> None:
        """The first whole picture: from now on there are streams."""
        self.pods, self.devices, self._machine = pods, devices, {messages.NODE: machine}
        self._owned = True
        own = self._bus.own
        self._allocations = own(messages.ALLOCATIONS, StateSource(self.pods), mark=self._mark)
        self._allocatable = own(messages.ALLOCATABLE, StateSource(self.devices))
        self._machines = own(messages.MACHINE, StateSource(self._machine), ring=16)

    @property
    def begun(self) -> bool:
        return self._owned

    def history(self) -> LedgerHistory:
        return LedgerHistory(self._floor, tuple(self._events))

    def take(self, step: Step) -> None:
        old = self.pods.pop(step.uid, None) if step.allocation is None else self.pods.get(step.uid)
        shown = step.allocation or old
        if shown is None:
            return
        self._mark += 1
        if len(self._events) == KEPT:
            self._floor = self._events[0].mark
        self._events.append(LedgerEvent(self._mark, shown, new=old is None, deleted=step.allocation is None))
        if step.allocation is None:
            self._allocations.publish(Op.DELETE, step.uid, b"", mark=self._mark)
        else:
            self.pods[step.uid] = step.allocation
            self._allocations.publish(Op.UPSERT, step.uid, step.allocation, mark=self._mark)

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
