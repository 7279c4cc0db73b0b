"""Limits of rare paths of a node, drawn by seed from tiny to real."""

from functools import partial
from typing import TYPE_CHECKING

from actors.cri import event_stream
from actors.devices import actor as devices_actor
from actors.devices.model.types import CallDeadlines
from actors.frontdoor import actor as frontdoor_actor
from actors.pleg.shell import mode_selector
from actors.podworker.clients import bus as podworker_bus
from actors.runtime import actor as runtime_actor
from actors.runtime.actor import RuntimeOptions
from protocols.messages import allocation_history
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.world import World

EVENTS_RETRY_S = 4.0
"""Longest pause before the event stream is opened again: a run does not wait for a minute."""


def draw_node(world: "World") -> None:
    """Draw the limits of its actors and make them use these."""
    _devices(world)
    events = int(world.draw("runtime_events", 4, 64, 4096))
    retry = event_stream.retry_delay
    patch(event_stream, "retry_delay", lambda failures: min(retry(failures), EVENTS_RETRY_S))
    patch(mode_selector, "SUSPECT_S", world.draw("suspect_s", 1.0, 60.0))
    patch(runtime_actor, "RuntimeOptions", partial(RuntimeOptions, events_ring=events))
    patch(podworker_bus, "RELEASE_S", world.draw("release_call_s", 0.3, 2.0, 10.0))
    patch(frontdoor_actor, "JOURNAL_EVENTS", int(world.draw("journal", 1, 16, 4096)))
    patch(frontdoor_actor, "WATCH_QUEUE_EVENTS", int(world.draw("watch_queue", 2, 32, 1024)))
    patch(frontdoor_actor, "PODS_WATCH_QUEUE_EVENTS", int(world.draw("pods_watch_queue", 2, 100)))
    patch(frontdoor_actor, "DRAIN_TIMEOUT_S", world.draw("drain_s", 0.1, 5.0))


def draw_machine(world: "World", prefix: str = "") -> float:
    """Draw how slow a node's disk and runtime are, and return for how many seconds its plugins may be away."""
    world.slow_threads[f"{prefix}devices"] = world.draw(f"{prefix}slow_disk_s", 1.5, 0.0, 0.0)
    world.slow_threads[f"{prefix}runtime"] = world.draw(f"{prefix}slow_runtime_s", 2.0, 1.0, 0.0)
    return world.draw(f"{prefix}plugin_away_s", 8.0, 0.5)


def _devices(world: "World") -> None:
    limits = CallDeadlines(
        stop_grace=world.draw("stop_grace_s", 3.0, 300.0),
        reconnect_wait=world.draw("reconnect_wait_s", 1.0, 10.0),
        call=world.draw("plugin_call_s", 2.0, 30.0),
    )
    patch(devices_actor, "CallDeadlines", lambda: limits)
    patch(allocation_history, "RETAINED", int(world.draw("allocations", 2, 32, 512)))
