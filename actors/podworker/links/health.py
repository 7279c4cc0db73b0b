"""Device health on the bus: what pods hold, what `health` says of it, and for `health` the pods that have ended."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from actors.podworker.links.world import Watched
from actors.podworker.types import PodSpec
from protocols.bus import Bus, Following, Op, Replica, StateSource, Stream
from protocols.bus.replica import OnChange
from protocols.messages import devices, health, podworker
from protocols.messages.devices import PodAllocation
from protocols.messages.health import PodResourceStatus
from protocols.messages.held import PodHeld, held_by
from protocols.messages.podworker import EndedPod

RING = 1024
HEARD_S = 1.0
LATE_S = 2.0
"""How much later than its admission a pod may be told of: an answer and a stream have no order between them."""


class HealthLink:
    """ports.DeviceHealth. Owns the stream `ended-pods`."""

    def __init__(self, on: bool, on_change: OnChange[PodResourceStatus], on_heard: Callable[[], None]) -> None:
        self.on = on
        self._statuses = Watched[PodResourceStatus](on_change, self._synced)
        self._on_heard = on_heard
        self._told_of_heard = False
        self._allocations = Replica[PodAllocation](lambda *change: self._told.set())
        self._told = asyncio.Event()
        self._ended: dict[str, EndedPod] = {}
        self._stream: Stream | None = None
        self._following: Following[PodAllocation] | None = None

    def start(self, bus: Bus) -> None:
        """Owned also while the gate is off: nobody waits for it in vain."""
        self._stream = bus.own(podworker.ENDED_PODS, StateSource(self._ended), ring=RING)
        if self.on:
            kind = PodResourceStatus
            bus.follow(owner=health.OWNER, stream=health.RESOURCE_STATUS, sink=self._statuses, type=kind)
            given = self._allocations
            self._following = bus.follow(
                owner=devices.OWNER, stream=devices.ALLOCATIONS, sink=given, type=PodAllocation
            )

    def _synced(self) -> None:
        """The first time: a pod may have been looked at between the items and the word that they are all."""
        if self.heard and not self._told_of_heard:
            self._told_of_heard = True
            self._on_heard()

    @property
    def heard(self) -> bool:
        return self._statuses.heard

    def status(self, uid: str) -> PodResourceStatus | None:
        return self._statuses.items.get(uid)

    async def held(self, uid: str, admitted: bool) -> PodHeld:
        if self._following is None:
            return PodHeld()
        if uid not in self._allocations.items:
            await self._following.wait_synced(HEARD_S)
            if admitted:
                await self._wait_for(uid)
        allocation = self._allocations.items.get(uid)
        return PodHeld() if allocation is None else held_by(allocation)

    async def _wait_for(self, uid: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LATE_S):
                while uid not in self._allocations.items:
                    self._told.clear()
                    await self._told.wait()

    def ended(self, spec: PodSpec, held: PodHeld) -> None:
        if self._stream is None or not self.on:
            return
        pod = EndedPod(spec.uid, spec.namespace, spec.name, held)
        if held and self._ended.get(spec.uid) != pod:
            self._ended[spec.uid] = pod
            self._stream.publish(Op.UPSERT, spec.uid, pod)
        elif not held and self._ended.pop(spec.uid, None) is not None:
            self._stream.publish(Op.DELETE, spec.uid, pod)
