"""Limits of rare paths, drawn by seed from tiny to real: what is rare with real limits is common with tiny ones."""

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actors.apiserver.replica import own_writes, replica, unconfirmed
from actors.apiserver.replica.window import MAX_CAPACITY, MIN_CAPACITY, Window
from actors.store import actor as store_actor
from actors.store.model.options import StoreOptions
from actors.store.rpc import watch as store_watch
from actors.watchcache import actor as watchcache_actor
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.window import WindowOptions
from tests.simulation.world.patching import patch

if TYPE_CHECKING:
    from tests.simulation.world.world import World

CHANGE_S = 0.015
"""Time to read one change of history where that is slow."""
SLOWLY_READ = 600
"""Most changes that a restarted watch cache reads where that is slow: it must be there in the time to converge."""


def draw_control(world: "World") -> None:
    """Draw the limits of its actors and make them use these."""
    _store(world)
    _watchcache(world)
    most = int(world.draw("replica_window", 4, 32, MAX_CAPACITY))
    patch(replica, "Window", partial(Window, lowest=min(most, MIN_CAPACITY), highest=most))
    patch(own_writes, "RUNS", int(world.draw("own_runs", 1, 4, 64)))
    patch(own_writes, "WAITING", int(world.draw("own_waiting", 2, 20, 1024)))
    patch(unconfirmed, "MOST", int(world.draw("unconfirmed", 1, 4, 1000)))


def _store(world: "World") -> None:
    history = int(world.draw("history", 5, 30, 300, 100_000))
    least = int(world.draw("history_min", 3, 20, 20_000))
    often = history < 100  # a short history that is compacted seldom is a long one
    drawn = {
        "queue_events": int(world.draw("queue", 2, 50, 2000)),
        "recent_changes": int(world.draw("recent", 2, 50, 4096)),
        "batch_requests": int(world.draw("batch", 1, 8, 512)),
        "checkpoint_pages": int(world.draw("checkpoint", 20, 1000)),
        "compact_every": world.draw("compact_s", *((0.1, 0.1, 0.5) if often else (0.5, 0.5, 5.0)), 60),
        "history_seconds": world.draw("history_s", 0.5, 0.5, 600.0),
        "history_min_revisions": min(least, history),
        "history_max_revisions": history,
    }
    made = store_actor.store_options

    def options(settings: Any, layout: Any) -> StoreOptions:
        return replace(made(settings, layout), **drawn)

    patch(store_actor, "store_options", options)
    page = int(world.draw("read_changes", 2, 20, 500))
    patch(store_watch, "READ_CHANGES", page)
    slow = CHANGE_S * min(page, 20)
    world.slow_threads["store"] = world.draw("slow_read_s", slow, slow, 0.0)


def _watchcache(world: "World") -> None:
    most = int(world.draw("window", 4, 32, 102_400))
    window = WindowOptions(
        min_capacity=min(most, int(world.draw("window_min", 4, 4, 100))),
        max_capacity=most,
        target_age=world.draw("window_age", 0.5, 5.0, 75.0),
    )
    resume = int(world.draw("resume", 3, 50, 20_000))
    drawn: dict[str, Any] = {
        "resume_revisions": min(resume, SLOWLY_READ) if world.limits["slow_read_s"] else resume,
        "quiet_after": world.draw("quiet_s", 0.2, 5.0),
        "dead_after": world.draw("dead_s", 2.0, 20.0),
        "compare_interval": world.draw("compare_s", 3.0, 300.0),
    }

    def options(**given: Any) -> WatchcacheOptions:
        return WatchcacheOptions(**given, window=window, **drawn)

    patch(watchcache_actor, "WatchcacheOptions", options)
