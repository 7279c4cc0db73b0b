"""The front door's server in the test's own process, fed by hand."""

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from actors.frontdoor.allocatable import AllocatableFeed
from actors.frontdoor.entrance.reception import Reception, ReceptionOptions
from actors.frontdoor.entrance.types import EntranceLimits
from actors.frontdoor.journal import Journal
from actors.frontdoor.limiter import FairLimiter
from actors.frontdoor.lister import Lister, ListerOptions
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.pods import PodFeed
from actors.frontdoor.server import PodResources, Server, ServerOptions
from actors.frontdoor.types import Place
from actors.frontdoor.watch import Watch, WatchOptions
from actors.frontdoor.watchers import Slots, Watchers
from protocols.messages.pods import NodePod


@dataclass(frozen=True)
class DoorLimits:
    queue: int = 1024
    watchers: int = 4096
    last_words: float = 0.3
    rate: float = 0.0
    burst: int = 10
    health: str = ""
    mode: int = 0o600
    enabled: bool = True
    active_only: bool = True
    entrance: EntranceLimits = field(default_factory=EntranceLimits)


class Lines(logging.Handler):
    """What the access log said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def silent_log() -> logging.Logger:
    return logging.Logger("door", logging.CRITICAL)


class Door:
    """Not started: its feeds can be filled first."""

    def __init__(self, limits: DoorLimits = DoorLimits()) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.socket = self.directory / "kubelet.sock"
        self.registry = CollectorRegistry()
        slots, metrics = Slots(limits.watchers), FrontDoorMetrics(self.registry)
        self.pods = PodFeed(Journal(4096), Watchers(limits.queue, slots))
        self.allocatable = AllocatableFeed(Journal(4096), Watchers(limits.queue, slots))
        self.allocatable.journal.begin(1 << 22)
        self.access = Lines()
        log = logging.Logger("door", logging.INFO)
        log.addHandler(self.access)
        place = Place(self.socket, self.directory / "inner", limits.mode, os.getgid())
        limiter = FairLimiter(limits.rate, limits.burst)
        self.reception = Reception(ReceptionOptions(place, limiter, metrics, log, limits.entrance))
        self.others: list[NodePod] = []
        lister = Lister(
            ListerOptions(self.pods, self.allocatable, metrics, self.reception, lambda: self.others, limits.active_only)
        )
        pods, allocatable = (
            Watch(WatchOptions(kind, method, feed, metrics, self.reception, limits.enabled, limits.last_words))
            for kind, method, feed in (
                ("list_and_watch", "ListAndWatch", self.pods),
                ("list_and_watch_allocatable_resources", "ListAndWatchAllocatableResources", self.allocatable),
            )
        )
        self.server = Server(
            ServerOptions(self.reception, PodResources(lister, pods, allocatable).services(), limits.health)
        )

    async def start(self) -> None:
        self.pods.on_snapshot([], 1)
        await self.server.start()

    async def close(self) -> None:
        await self.server.stop(0)
        shutil.rmtree(self.directory)


def serve(story: Callable[[Door], Coroutine[Any, Any, None]], limits: DoorLimits = DoorLimits()) -> None:
    async def whole() -> None:
        door = Door(limits)
        await door.start()
        try:
            async with asyncio.timeout(100):
                await story(door)
        finally:
            await door.close()

    asyncio.run(whole())
