"""One store: its client, its state, the feed that keeps them together, and the streams of what it holds."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import Change, State
from actors.watchcache.service.bus_streams import Streams
from actors.watchcache.service.compactor import Compactor
from actors.watchcache.service.consistency_check import Consistency
from actors.watchcache.service.store_follower import Feed
from protocols.actor import Context
from protocols.bus import Bus
from protocols.errors import NodeplaneError
from protocols.etcd import BadEndpoint, EtcdClient, EtcdError


class StoreUnreachable(NodeplaneError):
    """Raised when the store's endpoints or certificates cannot be used at all."""

    grpc: ClassVar[str] = "UNAVAILABLE"


class Backend:
    """Shares nothing with other stores: revisions of one say nothing about another."""

    def __init__(self, options: WatchcacheOptions, bus: Bus, on_change: Callable[[], None]) -> None:
        self.options = options
        self.state = State(options)
        self.told = False
        """Its streams are owned."""
        self.away = ""
        """Why it cannot be followed just now."""
        self.alarms = ""
        """Of its members, such as NOSPACE."""
        self._client = EtcdClient(options.etcd)
        self._streams = Streams(bus, self.state)
        self._on_change = on_change
        self.feed = Feed(options, self._client, self.state, self)

    @property
    def name(self) -> str:
        return ",".join(self.options.etcd.endpoints)

    async def start(self, context: Context) -> None:
        """Raises StoreUnreachable when its address or certificates cannot be used at all."""
        try:
            await self._client.start()
        except BadEndpoint as error:
            raise StoreUnreachable(str(error)) from None
        context.spawn(self.feed.run(), f"feed of {self.name}")
        context.spawn(self.feed.keep(), f"progress of {self.name}")
        consistency = Consistency(self._client, self.state, self.options.compare)
        context.spawn(consistency.run(), f"comparison with {self.name}")
        context.spawn(self._watch_alarms(), f"alarms of {self.name}")
        if self.options.compaction:
            context.spawn(Compactor(self._client, self.options.compaction).run(), f"compaction of {self.name}")

    async def _watch_alarms(self) -> None:
        """A store without space refuses writes and serves reads: nobody else would notice before they write."""
        while True:
            await asyncio.sleep(self.options.look_at_alarms)
            with suppress(EtcdError):  # that it is away is told elsewhere
                found = sorted({error.strip() for status in await self._client.statuses() for error in status.errors})
                if (alarms := ", ".join(found)) != self.alarms:
                    self.alarms = alarms
                    self._on_change()

    async def close(self) -> None:
        await self._client.close()

    async def reach(self, revision: int) -> bool:
        """Whether all streams have come to `revision` within the bounded wait; followers hear of it now."""
        if self.state.complete and self.state.position >= revision:
            self._streams.hurry()
            return True
        came = await self.feed.waiters.wait(revision, self.options.fresh_timeout)
        self._streams.hurry()
        return came

    def tell(self, changes: list[Change]) -> None:
        self._streams.tell(changes)
        if not self.told:
            self.told = True
            self._on_change()

    def trouble(self, why: str) -> None:
        if bool(why) != bool(self.away):
            self.away = why
            self._on_change()
