"""Names that `nodeplane calls` knows: resources and drivers of the node, and those of recorded calls."""

import asyncio

from protocols.bus import Bus
from protocols.messages import devices as messages
from protocols.messages.devices import DraDriver, ResourceInventory
from protocols.process.texts import listed
from supervisor.base.errors import SupervisorError
from supervisor.calls.client import read_calls
from supervisor.client.connection import check_not_adopted, held

MOST_NAMED = 20


class NoSuchPeer(SupervisorError):
    """Raised when no resource or driver has the name whose calls are asked for."""


async def check_peer(bus: Bus, peer: str) -> None:
    """Raise NoSuchPeer unless a resource, a driver or a recorded call has this name. Raises NotRunning, UsageError."""
    check_not_adopted(bus)
    if peer and peer not in (known := await _known_peers(bus)):
        raise NoSuchPeer(f"no resource or driver is called {peer!r}; {_named(sorted(known))}")


async def _known_peers(bus: Bus) -> set[str]:
    resources, drivers = await asyncio.gather(
        held(bus, messages.DEVICES, ResourceInventory), held(bus, messages.DRA_DRIVERS, DraDriver)
    )
    return {*resources, *drivers, *(record.peer for record in await read_calls(bus))} - {""}


def _named(known: list[str]) -> str:
    if not known:
        return "no plugin or driver has registered since the device manager started"
    return f"there are: {listed(known, MOST_NAMED)}"
