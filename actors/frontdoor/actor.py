"""The front door for node agents: serves the pod resources API, with the watch that kubelet never got.

A process of its own, so that no client, however many or slow, is ever felt by the device manager. Owns nothing: its
state is a replica of the device manager's streams. On kill -9 clients' streams end with UNAVAILABLE; they connect again
and resume at their position, since positions are the ledger's and what they missed is asked back from its owner.
"""

import asyncio
import contextlib
import time

from actors.frontdoor.allocatable import MachineSink
from actors.frontdoor.server import Server, ServerOptions
from actors.frontdoor.wiring import PODS_GATE, Parts, pod_resources_place, pods_api_place
from protocols.actor import Context, run_actor
from protocols.bus import BusError, Replica, Unavailable
from protocols.messages import adopt
from protocols.messages import devices as messages
from protocols.messages import pods as pod_messages
from protocols.messages.adopt import AdoptState
from protocols.messages.devices import Device, Empty, LedgerHistory, Machine, PodAllocation, first_mark
from protocols.messages.pods import NodePod

HISTORY_TIMEOUT = 2.0
HISTORY_PAUSE = 0.05
STOP_GRACE = 1.0
PATIENCE = 5.0


class FrontDoor:
    def __init__(self, context: Context) -> None:
        self._context = context
        parts = Parts(context)
        self._pods, self._allocatable, self._node_pods = parts.pods, parts.allocatable, parts.node_pods
        self._allocatable.journal.begin(first_mark(time.time_ns()))
        settings = context.settings
        self._owner = adopt.OWNER if settings.adopt else messages.OWNER
        self._place = pod_resources_place(settings)
        door, pods = parts.reception(self._place), parts.reception(pods_api_place(settings))
        health = settings.pod_resources.health_address
        self._server = Server(ServerOptions(door, parts.pod_resources(door).services(), health))
        self._pods_server = Server(ServerOptions(pods, (parts.pods_api(pods),)))
        self._pods_enabled = settings.gate(PODS_GATE) and settings.adopt is None
        parts.metrics.connections.set_function(lambda: len(door.entrance) + len(pods.entrance))
        self._synced, self._current = False, settings.adopt is None
        self._pods.on_stale = lambda synced: self._fares(synced, self._current)
        self._node_pods.on_stale = self._pods_server.serving

    async def start(self) -> None:
        follow = self._context.bus.follow
        if self._context.settings.adopt:
            state = Replica[AdoptState](lambda op, key, new, old: self._fares(self._synced, bool(new and new.current)))
            follow(owner=adopt.OWNER, stream=adopt.STATE, sink=state, type=AdoptState)
        else:
            follow(owner=pod_messages.OWNER, stream=pod_messages.NODE_PODS, sink=self._node_pods, type=NodePod)
        if self._pods_enabled:
            self._pods_server.serving(False)
            await self._pods_server.start()
        self._context.spawn(self._open(), "open")

    async def _open(self) -> None:
        """Listen only once there is something true to say."""
        follow, owner = self._context.bus.follow, self._owner
        pods = follow(owner=owner, stream=messages.ALLOCATIONS, sink=self._pods, type=PodAllocation)
        allocatable = follow(owner=owner, stream=messages.ALLOCATABLE, sink=self._allocatable, type=Device)
        sink = MachineSink(self._allocatable)
        machine = follow(owner=owner, stream=messages.MACHINE, sink=sink, type=Machine)
        while not (pods.synced and allocatable.synced and machine.synced):
            with contextlib.suppress(Unavailable):
                for following in (pods, allocatable, machine):
                    await following.wait_synced(PATIENCE)
                break
            self._context.note(f"waiting for {self._owner}")
        await self._ask_history()
        await self._server.start()
        self._context.ready(f"listening on {self._place.socket}")

    def _fares(self, synced: bool, current: bool) -> None:
        """What health says: whether the streams are followed, and whether what they say is current."""
        self._synced, self._current = synced, current
        self._server.serving(synced and current)

    async def _ask_history(self) -> None:
        """Without it clients that were here before could not resume: nobody is let in until it is told."""
        while True:
            with contextlib.suppress(BusError):
                history = await self._context.bus.call(
                    self._owner, messages.HISTORY, Empty(), LedgerHistory, timeout=HISTORY_TIMEOUT, idempotent=True
                )
                return self._pods.remember(history)
            self._context.note(f"waiting for the history of {self._owner}")
            await asyncio.sleep(HISTORY_PAUSE)

    async def stop(self) -> None:
        self._pods.watchers.end()
        self._allocatable.watchers.end()
        self._node_pods.watchers.end()
        await asyncio.gather(self._server.stop(STOP_GRACE), self._pods_server.stop(STOP_GRACE))


def main(argv: list[str] | None = None) -> None:
    run_actor("frontdoor", FrontDoor, argv)


if __name__ == "__main__":
    main()
