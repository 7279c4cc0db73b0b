"""The watch cache: one watch of the etcd API, turned into a stream with history for every resource.

It owns the windows of recent changes and the position of each stream, all in memory. By kill -9 at any moment it loses
nothing: on start it lists the store and reads the changes of the last revisions again, so that followers go on from
their marks, and watches from their resourceVersions, without a new list.
"""

import asyncio

from actors.watchcache.errors import NotFresh, StoreUnreachable
from actors.watchcache.feed import Feed
from actors.watchcache.metrics import WatchcacheCollector
from actors.watchcache.options import WatchcacheOptions
from actors.watchcache.source import Streams
from actors.watchcache.state import Change, State
from protocols.actor import Context, run_actor
from protocols.bus import Call
from protocols.etcd import BadEndpoint, EtcdClient, etcd_options
from protocols.messages.objects import FRESHEN, Freshen
from protocols.messages.supervisor import Empty

RESUME = 10_000


class Watchcache:
    """Ready once the windows are filled and the streams owned."""

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self._options = WatchcacheOptions(
            etcd=etcd_options(settings, context.layout),
            resume_revisions=RESUME if settings.gate("EfficientWatchResumption") else 0,
        )
        self._client = EtcdClient(self._options.etcd)
        self._state = State(self._options)
        self._streams = Streams(context.bus, self._state)
        self._feed = Feed(self._options, self._client, self._state, self._tell)
        self._told = asyncio.Event()

    async def start(self) -> None:
        try:
            await self._client.start()
        except BadEndpoint as error:
            raise StoreUnreachable(str(error)) from None
        self._context.registry.register(WatchcacheCollector(self._state, self._feed))
        self._context.bus.serve(FRESHEN, Freshen, self._freshen)
        self._context.note(f"reading the store at {', '.join(self._options.etcd.endpoints)}")
        self._context.spawn(self._feed.run(), "feed")
        self._context.spawn(self._feed.keep(), "progress")

    def _tell(self, changes: list[Change]) -> None:
        self._streams.tell(changes)
        if not self._told.is_set():
            self._told.set()
            self._context.ready(f"from revision {self._state.position}")

    async def _freshen(self, request: Freshen, call: Call) -> Empty:
        reached = self._state.complete and self._state.position >= request.revision
        if not reached and not await self._feed.waiters.wait(request.revision, self._options.fresh_timeout):
            raise NotFresh(f"revision {request.revision} did not come; the cache is at {self._state.position}")
        return Empty()

    async def stop(self) -> None:
        await self._client.close()


def main(argv: list[str] | None = None) -> None:
    run_actor("watchcache", Watchcache, argv)


if __name__ == "__main__":
    main()
