"""The actor protocol, and the context an actor is made with: settings, bus, log, metrics, state reports."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec
from prometheus_client import CollectorRegistry

from protocols.actor.heartbeats import READY, Heartbeats
from protocols.bus import Bus
from protocols.process.layout import Layout
from protocols.process.settings import Settings
from protocols.process.tasks import Tasks, one_line


class Actor(Protocol):
    """Interface of an actor, which run_actor makes with a Context.

    All that an actor owns must survive a kill -9 between any two lines of these methods.
    """

    async def start(self) -> None:
        """Own streams, serve methods, follow others, spawn tasks; do not wait for other actors longer than needed."""
        ...

    async def stop(self) -> None:
        """End in order, within Timings.stop seconds. Not called after a fault, so that no broken state is written."""
        ...


class Timings(msgspec.Struct, frozen=True):
    """Times of a process around its actor; tests make them shorter."""

    beat: float = 1.0
    """Seconds between beats."""
    stop: float = 5.0
    """Seconds Actor.stop has."""
    close: float = 1.0
    """Seconds the bus and leftover tasks have after that."""


class Arguments(msgspec.Struct, frozen=True):
    """The command line of every actor."""

    settings: str
    """ROOT/run/settings.json, written by the supervisor."""
    instance: str
    """Name on the bus."""
    supervisor: str
    """Bus name that gets the heartbeats."""


class ContextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a process that `run_actor` makes before the actor."""

    settings: Settings
    bus: Bus
    log: logging.Logger
    registry: CollectorRegistry
    beats: Heartbeats
    stopping: asyncio.Event


class Context:
    """Context of one instance. `stopping` is set when the process has to end, for whatever reason."""

    def __init__(self, options: ContextOptions) -> None:
        self.settings: Settings = options.settings
        self.layout: Layout = options.settings.layout
        self.bus: Bus = options.bus
        self.instance: str = options.bus.options.name
        self.log: logging.Logger = options.log
        self.registry: CollectorRegistry = options.registry
        self.stopping: asyncio.Event = options.stopping
        self.fault: BaseException | None = None
        """Why this process has to end with exit code 1; None as long as it has not."""
        self._beats = options.beats
        self._tasks = Tasks(lambda name, error: self.fail(error, f"task {name}"))

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task of this actor. An exception in it ends the process, and the supervisor restarts it."""
        return self._tasks.start(coro, name)

    def ready(self, note: str = "") -> None:
        """Report that this instance serves; call it once."""
        self._beats.change(state=READY, note=note or None)

    def note(self, text: str) -> None:
        """Report one line for users, e.g. what the instance waits for."""
        self._beats.change(note=text)

    def need_worker(self) -> None:
        """Let the supervisor run the worker for expressions beside this instance, if it does not yet."""
        self._beats.need_worker()

    def fail(self, error: BaseException, where: str = "bus") -> None:
        """End this process with exit code 1; the first reason is the one that is logged."""
        if self.fault is None:
            self.fault = error
            self.log.error("%s failed: %s", where, one_line(error))
            self.log.debug("%s failed", where, exc_info=error)
        self.stopping.set()

    async def cancel_tasks(self) -> None:
        """End what was spawned."""
        await self._tasks.close()
