"""What the plane sees of the machine: two streams of one item each, published only where it really changed."""

import msgspec

from actors.devices.machine.keeper import MachineKeeper
from protocols.bus import Bus, Op, StateSource
from protocols.messages import devices as messages

RING = 64


class MachineStreams:
    def __init__(self, bus: Bus, keeper: MachineKeeper) -> None:
        self._keeper = keeper
        self._machine: dict[str, msgspec.Struct] = {messages.NODE: keeper.machine()}
        self._placement: dict[str, msgspec.Struct] = {messages.NODE: keeper.placement()}
        self._machines = bus.own(messages.MACHINE, StateSource(self._machine), ring=RING)
        self._placements = bus.own(messages.PLACEMENT, StateSource(self._placement), ring=RING)

    def refresh(self) -> None:
        """Only what is durable may show: called once a change of the ledger is."""
        for shown, fresh, stream in (
            (self._machine, self._keeper.machine(), self._machines),
            (self._placement, self._keeper.placement(), self._placements),
        ):
            if shown[messages.NODE] != fresh:
                shown[messages.NODE] = fresh
                stream.publish(Op.UPSERT, messages.NODE, fresh)
