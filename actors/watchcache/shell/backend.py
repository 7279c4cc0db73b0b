"""One store: its client, its state, the follower that keeps the state current, and its streams."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import PublishedEvent, StoreState
from actors.watchcache.shell.bus_streams import BusStreams
from actors.watchcache.shell.compactor import Compactor
from actors.watchcache.shell.consistency_check import ConsistencyCheck
from actors.watchcache.shell.store_follower import StoreFollower
from protocols.actor import Context
from protocols.bus import Bus
from protocols.errors import NodeplaneError
from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import BadEndpoint, EtcdError


class StoreUnreachable(NodeplaneError, grpc="UNAVAILABLE"):
    """Raised when the store's endpoints or certificates cannot be used at all."""


class StoreBackend:
    """Everything of one store. Revisions of different stores do not compare, so backends share nothing."""

    def __init__(self, options: WatchcacheOptions, bus: Bus, on_change: Callable[[], None]) -> None:
        self.options = options
        self.state = StoreState(options)
        self.published = False
        """True once its streams are owned."""
        self.unavailable_reason = ""
        """The current error of following the store; empty while it works."""
        self.alarms = ""
        """Alarms of its members, such as NOSPACE."""
        self.size: int | None = None
        """Bytes of its database, the largest member's; None before it was asked."""
        self._client = EtcdClient(options.etcd)
        self._streams = BusStreams(bus, self.state)
        self._on_change = on_change
        self.follower = StoreFollower(options, self._client, self.state, self)

    @property
    def name(self) -> str:
        return ",".join(self.options.etcd.endpoints)

    async def start(self, context: Context) -> None:
        """Start following.

        Raises:
            StoreUnreachable: The address or certificates cannot be used at all.
        """
        try:
            await self._client.start()
        except BadEndpoint as error:
            raise StoreUnreachable(str(error)) from None
        context.spawn(self.follower.run(), f"feed of {self.name}")
        context.spawn(self.follower.poll_progress(), f"progress of {self.name}")
        consistency = ConsistencyCheck(self._client, self.state, self.options.compare_interval)
        context.spawn(consistency.run(), f"comparison with {self.name}")
        context.spawn(self._watch_alarms(), f"alarms of {self.name}")
        if self.options.compaction_interval:
            context.spawn(Compactor(self._client, self.options.compaction_interval).run(), f"compaction of {self.name}")

    async def _watch_alarms(self) -> None:
        # A store without space rejects writes but serves reads, so nobody else notices before the next write.
        while True:
            with suppress(EtcdError):  # the follower reports an unavailable store
                statuses = await self._client.statuses()
                self.size = max((status.size for status in statuses), default=None)
                errors = sorted({error.strip() for status in statuses for error in status.errors})
                if (alarms := ", ".join(errors)) != self.alarms:
                    self.alarms = alarms
                    self._on_change()
            await asyncio.sleep(self.options.alarm_interval)

    async def close(self) -> None:
        await self._client.close()

    async def reach(self, revision: int) -> bool:
        """Wait until all streams reach `revision` and publish their marks; return False after the bounded wait."""
        if self.state.complete and self.state.position >= revision:
            self._streams.flush_marks()
            return True
        came = await self.follower.waiters.wait(revision, self.options.fresh_timeout)
        self._streams.flush_marks()
        return came

    def publish(self, changes: list[PublishedEvent]) -> None:
        self._streams.publish(changes)
        if not self.published:
            self.published = True
            self._on_change()

    def begin_anew(self) -> None:
        self._streams.begin_anew()

    def on_unavailable(self, why: str) -> None:
        if bool(why) != bool(self.unavailable_reason):
            self.unavailable_reason = why
            self._on_change()
