"""Limits of rare paths of a node, drawn by seed from tiny to real."""

from functools import partial
from typing import TYPE_CHECKING, Any

from actors.devices import actor as devices_actor
from actors.devices.model.types import Limits
from actors.frontdoor import actor as frontdoor_actor
from actors.runtime import actor as runtime_actor
from actors.runtime.server import RuntimeOptions
from protocols.actor import shell
from protocols.bus import Bus, BusOptions
from protocols.bus import stream as stream_module
from protocols.messages import allocation_history
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def draw_limits(world: "World") -> None:
    """Draw all limits and make the actors use them."""
    _bus(world)
    _devices(world)
    events = int(world.draw("runtime_events", 4, 64, 4096))
    patch(runtime_actor, "RuntimeOptions", partial(RuntimeOptions, events_ring=events))
    patch(frontdoor_actor, "JOURNAL_EVENTS", int(world.draw("journal", 1, 16, 4096)))
    patch(frontdoor_actor, "WATCH_QUEUE_EVENTS", int(world.draw("watch_queue", 2, 32, 1024)))
    patch(frontdoor_actor, "PODS_WATCH_QUEUE_EVENTS", int(world.draw("pods_watch_queue", 2, 100)))
    patch(frontdoor_actor, "DRAIN_TIMEOUT_S", world.draw("drain_s", 0.1, 5.0))


def _bus(world: "World") -> None:
    ring, buffer = int(world.draw("ring", 0, 2, 8, 64)), int(world.draw("buffer", 4, 32, 10_000))
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


def _devices(world: "World") -> None:
    limits = Limits(
        stop_grace=world.draw("stop_grace_s", 3.0, 300.0),
        reconnect_wait=world.draw("reconnect_wait_s", 1.0, 10.0),
        call=world.draw("plugin_call_s", 2.0, 30.0),
    )
    patch(devices_actor, "Limits", lambda: limits)
    patch(allocation_history, "RETAINED", int(world.draw("history", 2, 32, 512)))
