"""Clients of pleg, the device manager and health on the bus."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from actors.podworker.model.types import PodSpec
from protocols.bus import Bus, Following, Op, Replica, StateSource, Stream
from protocols.bus.replica import OnChange
from protocols.messages import devices, health, podworker
from protocols.messages import devices as device_messages
from protocols.messages import pleg as pleg_messages
from protocols.messages.devices import AdmitPod, AdmittedPod, PodAllocation, PrepareClaims
from protocols.messages.health import PodResourceStatus
from protocols.messages.held import PodHeld, held_by
from protocols.messages.pleg import PodStatus
from protocols.messages.podworker import EndedPod

V = TypeVar("V")
NEWER_S = 10.0
ADMIT_S = 35.0
RELEASE_S = 10.0
PREPARE_S = 100.0
"""A driver has 45 s, and may be busy with another pod of the same claim before."""
PARALLEL_QUESTIONS = 64


class Watched(Replica[V]):
    """A replica that also tells when it becomes synced or stale."""

    def __init__(self, on_change: OnChange[V] | None, on_synced: Callable[[], None]) -> None:
        super().__init__(on_change)
        self._told = on_synced
        self.heard = False
        """It was synced at least once."""

    def on_synced(self, synced: bool) -> None:
        super().on_synced(synced)
        self.heard = self.heard or synced
        self._told()


class BusPleg:
    """ports.Pleg."""

    def __init__(self, bus: Bus, replica: Replica[PodStatus]) -> None:
        self._bus = bus
        self._replica = replica
        self._slots = asyncio.Semaphore(PARALLEL_QUESTIONS)

    def known(self, uid: str) -> PodStatus | None:
        return self._replica.items.get(uid)

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        question = pleg_messages.GetNewerThan(uid=uid, min_ns=min_ns)
        async with self._slots:
            return await self._bus.call(
                pleg_messages.OWNER,
                pleg_messages.GET_NEWER_THAN,
                question,
                PodStatus,
                timeout=NEWER_S,
                idempotent=True,
            )


class BusDevices:
    """ports.Devices."""

    def __init__(self, bus: Bus, shared: Callable[[], str], admitted: Callable[[], None]) -> None:
        self._bus = bus
        self.shared = shared
        self._admitted = admitted

    async def admit(self, request: AdmitPod) -> AdmittedPod:
        reply: AdmittedPod = await self._call(device_messages.ADMIT, request, AdmittedPod, ADMIT_S)
        self._admitted()  # of a pod that runs already, what it is kept to is known only now
        return reply

    async def release(self, uid: str) -> None:
        await self._call(device_messages.RELEASE, device_messages.ReleasePod(uid), device_messages.Empty, RELEASE_S)

    async def pre_start(self, uid: str, container: str, resources: tuple[str, ...]) -> None:
        request = device_messages.PreStart(uid, container, resources)
        await self._call(device_messages.PRE_START, request, device_messages.Empty, ADMIT_S)

    async def prepare(self, request: PrepareClaims) -> dict[str, tuple[str, ...]]:
        reply = await self._call(device_messages.PREPARE_CLAIMS, request, device_messages.PreparedClaims, PREPARE_S)
        names: dict[str, tuple[str, ...]] = reply.cdi_devices
        return names

    async def unprepare(self, uid: str) -> None:
        request = device_messages.UnprepareClaims(uid)
        await self._call(device_messages.UNPREPARE_CLAIMS, request, device_messages.Empty, PREPARE_S)

    async def reconcile(self, active: tuple[str, ...]) -> None:
        request = device_messages.ReconcilePods(active)
        await self._call(device_messages.RECONCILE, request, device_messages.Empty, RELEASE_S)

    async def _call(self, method: str, request: Any, reply: type[Any], timeout: float) -> Any:
        return await self._bus.call(device_messages.OWNER, method, request, reply, timeout=timeout, idempotent=True)


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
