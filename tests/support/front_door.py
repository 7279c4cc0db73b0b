"""Run the front door's server in the test process, with feeds that the test fills."""

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from actors.frontdoor.feeds.allocatable_feed import AllocatableFeed
from actors.frontdoor.feeds.broadcast import Journal, Watchers
from actors.frontdoor.feeds.pod_feed import PodFeed
from actors.frontdoor.pod_resources_api import PodResources, UnaryMethods, Watch
from actors.frontdoor.serving.endpoint import Endpoint, FairLimiter
from actors.frontdoor.serving.listener import ConnectionLimits, SocketOptions
from actors.frontdoor.serving.metrics import FrontDoorMetrics
from actors.frontdoor.serving.quota import WatchQuota
from actors.frontdoor.serving.server import FrontdoorServer
from protocols.messages.podworker import NodePod


@dataclass(frozen=True)
class DoorLimits:
    queue: int = 1024
    watchers: int = 4096
    drain_timeout_s: float = 0.3
    rate: float = 0.0
    burst: int = 10
    watch_rate: float = 0.0
    watch_burst: int = 64
    health: str = ""
    mode: int = 0o600
    enabled: bool = True
    active_only: bool = True
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)


class Lines(logging.Handler):
    """Log handler that keeps the lines of the access log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def silent_log() -> logging.Logger:
    return logging.Logger("door", logging.CRITICAL)


class Door:
    """A server that is not started yet, so that its feeds can be filled first."""

    def __init__(self, limits: DoorLimits = DoorLimits()) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.socket = self.directory / "kubelet.sock"
        self.registry = CollectorRegistry()
        slots, metrics = WatchQuota(limits.watchers), FrontDoorMetrics(self.registry)
        self.pods = PodFeed(Journal(4096), Watchers(limits.queue, slots))
        self.allocatable = AllocatableFeed(Journal(4096), Watchers(limits.queue, slots))
        self.allocatable.journal.begin(1 << 22)
        self.access = Lines()
        log = logging.Logger("door", logging.INFO)
        log.addHandler(self.access)
        address = SocketOptions(self.socket, self.directory / "inner", limits.mode, os.getgid())
        unary_limiter = FairLimiter(limits.rate, limits.burst)
        watch_limiter = FairLimiter(limits.watch_rate, limits.watch_burst, limits.watchers)
        self.endpoint = Endpoint(address, (unary_limiter, watch_limiter), metrics, log, limits.connections)
        self.pods_without_resources: list[NodePod] = []
        unary = UnaryMethods(
            self.pods,
            self.allocatable,
            metrics,
            self.endpoint,
            lambda: self.pods_without_resources,
            limits.active_only,
        )
        pods, allocatable = (
            Watch(kind, method, feed, metrics, self.endpoint, limits.enabled, limits.drain_timeout_s)
            for kind, method, feed in (
                ("list_and_watch", "ListAndWatch", self.pods),
                ("list_and_watch_allocatable_resources", "ListAndWatchAllocatableResources", self.allocatable),
            )
        )
        self.server = FrontdoorServer(self.endpoint, PodResources(unary, pods, allocatable).services(), limits.health)

    async def start(self) -> None:
        self.pods.on_snapshot([], 1)
        await self.server.start()

    async def close(self) -> None:
        await self.server.stop(0)
        shutil.rmtree(self.directory)


@asynccontextmanager
async def running_front_door(limits: DoorLimits = DoorLimits()) -> AsyncIterator[Door]:
    door = Door(limits)
    await door.start()
    try:
        async with asyncio.timeout(100):
            yield door
    finally:
        await door.close()
