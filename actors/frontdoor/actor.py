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
from protocols.bus import BusError, Unavailable
from protocols.messages import devices as messages
from protocols.messages import pods as pod_messages
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
        wanted, layout = context.settings.pod_resources, context.layout
        door = parts.reception(pod_resources_place(layout, wanted))
        pods = parts.reception(pods_api_place(layout, wanted))
        self._server = Server(ServerOptions(door, parts.pod_resources(door).services()))
        self._pods_server = Server(ServerOptions(pods, (parts.pods_api(pods),)))
        self._pods_enabled = context.settings.gate(PODS_GATE)
        parts.metrics.connections.set_function(lambda: len(door.entrance) + len(pods.entrance))
        self._pods.on_stale = self._server.serving
        self._node_pods.on_stale = self._pods_server.serving

    async def start(self) -> None:
        follow = self._context.bus.follow
        follow(owner=pod_messages.OWNER, stream=pod_messages.NODE_PODS, sink=self._node_pods, type=NodePod)
        if self._pods_enabled:
            self._pods_server.serving(False)
            await self._pods_server.start()
        self._context.spawn(self._open(), "open")

    async def _open(self) -> None:
        """Listen only once there is something true to say."""
        follow = self._context.bus.follow
        pods = follow(owner=messages.OWNER, stream=messages.ALLOCATIONS, sink=self._pods, type=PodAllocation)
        allocatable = follow(owner=messages.OWNER, stream=messages.ALLOCATABLE, sink=self._allocatable, type=Device)
        sink = MachineSink(self._allocatable)
        machine = follow(owner=messages.OWNER, stream=messages.MACHINE, sink=sink, type=Machine)
        while not (pods.synced and allocatable.synced and machine.synced):
            with contextlib.suppress(Unavailable):
                for following in (pods, allocatable, machine):
                    await following.wait_synced(PATIENCE)
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
        self._node_pods.watchers.end()
        await asyncio.gather(self._server.stop(STOP_GRACE), self._pods_server.stop(STOP_GRACE))


def main(argv: list[str] | None = None) -> None:
    run_actor("frontdoor", FrontDoor, argv)


if __name__ == "__main__":
    main()
