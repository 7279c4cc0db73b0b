"""Limits of the bus, drawn by seed: every profile has one."""

from typing import TYPE_CHECKING, Any

from protocols.actor import shell
from protocols.bus import Bus, BusOptions
from protocols.bus import stream as stream_module
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def draw_bus(world: "World") -> None:
    """Draw rings, buffers and chunks, and make every bus use them; a ring of 0 is as its owner asks."""
    ring, buffer = int(world.draw("ring", 2, 8, 64, 0)), int(world.draw("buffer", 4, 32, 10_000))
    count, window = int(world.draw("chunk", 1, 3, 2048)), int(world.draw("credit", 1, 4))
    own = Bus.own

    def drawn_own(self: Bus, name: str, source: Any, ring_size: int = 4096, mark: int = 0, **given: int) -> Any:
        return own(self, name, source, ring=ring or given.get("ring", ring_size), mark=mark)

    patch(Bus, "own", drawn_own)
    patch(shell, "BusOptions", lambda **given: BusOptions(**given, buffer_events=buffer))
    desk = stream_module.DeskLimits(chunk=stream_module.ChunkLimits(count=count), window=window)
    made = stream_module.SyncDesk.__init__

    def init(self: stream_module.SyncDesk, limits: stream_module.DeskLimits | None = None) -> None:
        made(self, limits or desk)

    patch(stream_module.SyncDesk, "__init__", init)
