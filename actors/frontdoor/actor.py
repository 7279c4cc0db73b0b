"""The front door for node agents: serves the pod resources API, with the watch that kubelet never got.

A process of its own, so that no client, however many or slow, is ever felt by the device manager. Owns nothing: its
state is a replica of the device manager's streams. On kill -9 clients' streams end with UNAVAILABLE; they connect again
and resume at their position, since positions are the ledger's and what they missed is asked back from its owner.
"""

import asyncio
import contextlib
import time

from actors.frontdoor.allocatable import AllocatableFeed
from actors.frontdoor.journal import Journal
from actors.frontdoor.limiter import TokenBucket
from actors.frontdoor.lister import Lister, ListerOptions
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.pods import PodFeed
from actors.frontdoor.server import PodResourcesServer, ServerOptions
from actors.frontdoor.types import Limits
from actors.frontdoor.watch import Feed, Watch, WatchOptions
from actors.frontdoor.watchers import Slots, Watchers
from protocols.actor import Context, run_actor
from protocols.bus import BusError, Unavailable
from protocols.messages import devices as messages
from protocols.messages.devices import Device, Empty, LedgerHistory, PodAllocation, first_mark

GATE = "KubeletPodResourcesWatch"
HISTORY_TIMEOUT = 2.0
HISTORY_PAUSE = 0.05
STOP_GRACE = 1.0
PATIENCE = 5.0


class FrontDoor:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._limits = Limits()
        slots = Slots(self._limits.watchers)
        self._metrics = FrontDoorMetrics(context.registry)
        self._pods = PodFeed(Journal(self._limits.ring), Watchers(self._limits.queue, slots))
        self._allocatable = AllocatableFeed(Journal(self._limits.ring), Watchers(self._limits.queue, slots))
        self._allocatable.journal.begin(first_mark(time.time_ns()))
        self._server = PodResourcesServer(
            ServerOptions(
                socket=context.layout.pod_resources_socket,
                lister=self._lister(),
                watch_pods=self._watch("list_and_watch", "ListAndWatch", self._pods),
                watch_allocatable=self._watch(
                    "list_and_watch_allocatable_resources", "ListAndWatchAllocatableResources", self._allocatable
                ),
            )
        )

    def _lister(self) -> Lister:
        bucket = TokenBucket(self._limits.rate, self._limits.burst)
        return Lister(ListerOptions(self._pods, self._allocatable, self._metrics, bucket))

    def _watch(self, kind: str, method: str, feed: Feed) -> Watch:
        enabled = self._context.settings.gate(GATE)
        return Watch(WatchOptions(kind, method, feed, self._metrics, enabled, self._limits.last_words))

    async def start(self) -> None:
        self._context.spawn(self._open(), "open")

    async def _open(self) -> None:
        """Listen only once there is something true to say."""
        follow = self._context.bus.follow
        pods = follow(owner=messages.OWNER, stream=messages.ALLOCATIONS, sink=self._pods, type=PodAllocation)
        allocatable = follow(owner=messages.OWNER, stream=messages.ALLOCATABLE, sink=self._allocatable, type=Device)
        while not (pods.synced and allocatable.synced):
            with contextlib.suppress(Unavailable):
                await pods.wait_synced(PATIENCE)
                await allocatable.wait_synced(PATIENCE)
                break
            self._context.note("waiting for the device manager")
        await self._ask_history()
        await self._server.start()
        self._context.ready(f"listening on {self._context.layout.pod_resources_socket}")

    async def _ask_history(self) -> None:
        """Without it clients that were here before could not resume: nobody is let in until it is told."""
        while True:
            with contextlib.suppress(BusError):
                history = await self._context.bus.call(
                    messages.OWNER, messages.HISTORY, Empty(), LedgerHistory, timeout=HISTORY_TIMEOUT, idempotent=True
                )
                return self._pods.remember(history)
            self._context.note("waiting for the device manager's history")
            await asyncio.sleep(HISTORY_PAUSE)

    async def stop(self) -> None:
        self._pods.watchers.end()
        self._allocatable.watchers.end()
        await self._server.stop(STOP_GRACE)


def main(argv: list[str] | None = None) -> None:
    run_actor("frontdoor", FrontDoor, argv)


if __name__ == "__main__":
    main()
