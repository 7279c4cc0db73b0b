"""Node agents: clients of the front door that watch, list, read slowly, and compare what they were told."""

import asyncio
from typing import TYPE_CHECKING

import grpc

from protocols.errors import NodeplaneError
from protocols.messages.devices import PodAllocation
from protocols.podresources.client import PodResources
from protocols.podresources.types import Action, PodEvent, WatchOptions
from protocols.process.tasks import awaited
from tests.simulation.world.process import Process

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulation.model import Main
    from tests.simulation.node.witness import Witness
    from tests.simulation.world.world import World

LIST_S = 1.0, 6.0
RETRY_S = 0.5
REMEMBERED = 512
"""Events in a history that is longer than a run."""
View = dict[str, tuple[str, ...]]
"""What each pod holds, by namespace/name."""


class Agent:
    """One agent; its incarnations begin anew."""

    def __init__(self, world: "World", name: str, socket: "Path", witness: "Witness") -> None:
        self.name = name
        self._world, self._socket, self._witness = world, socket, witness
        self._chance = world.random(f"agent/{name}")
        self._slow = world.draw(f"{name}_slow_share", 0.0, 0.2)
        self._remembered = all(world.limits[name] >= REMEMBERED for name in ("allocations", "journal"))
        self.watched: View = {}
        self.listed: View | None = None
        self.listed_at = 0.0
        self.events = 0
        self._began = 0.0
        self._deleted: set[str] = set()
        self._may_return: set[str] = set()
        """Pods that a restored backup may bring back, or take from their node until they are bound again.

        An agent that starts after the restore may see it, too: the node's podworker may hear of it later still.
        """

    def main(self) -> "Main":
        async def main(process: Process) -> None:
            self.watched, self.listed, self._deleted = {}, None, set()
            self._began = self._world.elapsed
            async with PodResources(self._socket) as client:
                listing = awaited(self._list(client))
                try:
                    await self._watch(client)
                finally:
                    listing.cancel()

        return main

    def restored(self, made: set[str]) -> None:
        """Let those of the pods made so far come back once, whether their DELETED is known or still to come."""
        self._deleted.clear()
        self._may_return = made

    async def _watch(self, client: PodResources) -> None:
        while True:
            try:
                async for event in client.watch(WatchOptions(on_break=self._on_break)):
                    self._take(event)
                    if self._slow and self._chance.random() < self._slow:
                        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
            except (NodeplaneError, grpc.aio.AioRpcError) as error:
                self._witness.break_promise("the front door serves", f"{self.name}: {error}")
            await asyncio.sleep(RETRY_S)

    def _on_break(self, line: str) -> None:
        """Where the histories are as long as real ones, a watch that resumes never has to begin anew."""
        if self._remembered and "OUT_OF_RANGE" in line and self._began > self._witness.ledger_lost_at:
            self._witness.break_promise("watches resume", f"{self.name}: {line}")

    def _take(self, event: PodEvent) -> None:
        self.events += 1
        key = f"{event.pod.namespace}/{event.pod.name}"
        if event.action is Action.ADDED and key in self._witness.rejected:
            self._deleted.discard(key)
        if key in self._deleted:
            self._witness.break_promise("no event after DELETED", f"{self.name}: {event.action.name} of {key}")
        if event.action is Action.DELETED:
            if key not in self._may_return:
                self._deleted.add(key)
            self._may_return.discard(key)
            if self.watched.pop(key, None) is None:
                self._witness.break_promise("DELETED of a known pod", f"{self.name}: {key}")
        elif event.action is Action.ADDED and key in self.watched:
            self._witness.break_promise("ADDED once", f"{self.name}: {key}")
        else:
            self.watched[key] = shown(event.pod)

    async def _list(self, client: PodResources) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(*LIST_S))
            try:
                asked_at = self._world.elapsed
                pods = await client.list()
                for pod in pods[:1]:
                    await self._get(client, pod)
            except (NodeplaneError, grpc.aio.AioRpcError):
                continue
            self.listed = {f"{pod.namespace}/{pod.name}": shown(pod) for pod in pods}
            self.listed_at = asked_at

    async def _get(self, client: PodResources, pod: PodAllocation) -> None:
        found = await client.get(pod.namespace, pod.name)
        if found.name != pod.name:
            self._witness.break_promise("Get returns the pod", f"{pod.name}: {found.name}")


def shown(pod: PodAllocation) -> tuple[str, ...]:
    """Return what a pod holds, in words."""
    found = []
    for container in pod.containers:
        found += [f"{container.name} {device.resource} {device.id}" for device in container.devices]
        found += [f"{container.name} cpu {cpu}" for cpu in container.cpus]
        found += [f"{container.name} {claim.name} {item.id}" for claim in container.claims for item in claim.devices]
    return tuple(sorted(found))
