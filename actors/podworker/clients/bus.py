"""Clients of pleg, the device manager and health on the bus."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from protocols.bus import Bus, Following, Op, Replica, StateSource, Stream, Unavailable
from protocols.bus.following import OnChange
from protocols.lifecycle.pods.runtime_status import RUNNING
from protocols.lifecycle.pods.types import PodSpec
from protocols.messages import cri, devices, health, pleg, podworker
from protocols.messages.devices import AdmitPod, AdmittedPod, PodAllocation, PrepareClaims
from protocols.messages.health import PodHeld, PodResourceStatus, held_by
from protocols.messages.pleg import PodStatus
from protocols.messages.podworker import EndedPod, InitializingPod

V = TypeVar("V")
NEWER_S = 10.0
ADMIT_S = 35.0
RELEASE_S = 10.0
PREPARE_S = 100.0
"""A driver has 45 s, and may be busy with another pod of the same claim first."""
PARALLEL_QUESTIONS = 64
RING = 1024
HEARD_S = 1.0
LATE_S = 2.0
"""Time by which an allocation may arrive after its admission: a reply and a stream are not ordered."""


class Watched(Replica[V]):
    """A replica with subscribers, called on each change and whenever it becomes synced or stale."""

    def __init__(self) -> None:
        super().__init__(self._notify)
        self.was_synced = False
        """Synced at least once since this process started."""
        self._change_subscribers: list[OnChange[V]] = []
        self._synced_subscribers: list[Callable[[], None]] = []

    def subscribe(self, on_change: OnChange[V] | None = None, on_synced: Callable[[], None] | None = None) -> None:
        """Subscribers are called in the order of their subscriptions."""
        if on_change is not None:
            self._change_subscribers.append(on_change)
        if on_synced is not None:
            self._synced_subscribers.append(on_synced)

    def on_synced(self, synced: bool) -> None:
        super().on_synced(synced)
        self.was_synced = self.was_synced or synced
        for subscriber in self._synced_subscribers:
            subscriber()

    def _notify(self, op: Op, key: str, new: V | None, old: V | None) -> None:
        for subscriber in self._change_subscribers:
            subscriber(op, key, new, old)


class Streams:
    """Replicas of the streams that the node and its pods depend on."""

    def __init__(self) -> None:
        self.runtime_state = Watched[cri.RuntimeState]()
        self.pod_status = Watched[PodStatus]()
        self.pleg_state = Watched[pleg.PlegState]()
        self.placements = Watched[devices.Placement]()
        self.inventory = Watched[devices.ResourceInventory]()
        self.notices = Watched[devices.NodeNotice]()
        self.dra_drivers = Watched[devices.DraDriver]()
        self._following: Following[PodStatus] | None = None
        self._named_runtime = cri.RuntimeState()
        """The last state with the runtime's name: a cri that has just started knows neither name nor handlers."""
        self.runtime_state.subscribe(self._on_runtime_state)

    def _on_runtime_state(self, op: Op, key: str, new: cri.RuntimeState | None, old: cri.RuntimeState | None) -> None:
        if new is not None and new.name:
            self._named_runtime = new

    def follow(self, bus: Bus) -> None:
        owner = devices.OWNER
        bus.follow(owner=cri.OWNER, stream=cri.RUNTIME_STATE, sink=self.runtime_state, type=cri.RuntimeState)
        # pleg's state first: it says of the statuses of a pleg that has just started that they are not all yet.
        bus.follow(owner=pleg.OWNER, stream=pleg.PLEG_STATE, sink=self.pleg_state, type=pleg.PlegState)
        self._following = bus.follow(owner=pleg.OWNER, stream=pleg.POD_STATUS, sink=self.pod_status, type=PodStatus)
        bus.follow(owner=owner, stream=devices.NOTICES, sink=self.notices, type=devices.NodeNotice)
        bus.follow(owner=owner, stream=devices.PLACEMENT, sink=self.placements, type=devices.Placement)
        bus.follow(owner=owner, stream=devices.DEVICES, sink=self.inventory, type=devices.ResourceInventory)
        bus.follow(owner=owner, stream=devices.DRA_DRIVERS, sink=self.dra_drivers, type=devices.DraDriver)

    @property
    def pods_synced(self) -> bool:
        return self._following is not None and self._following.synced

    async def wait_pods_synced(self, seconds: float) -> None:
        """Wait until pleg has reported all pods. Raises TimeoutError or BusError if it does not in time."""
        if self._following is None:
            raise Unavailable("the streams are not followed yet")
        await self._following.wait_synced(seconds)

    def pods_listed(self) -> bool:
        """Return False while pleg has just started: a pod without a runtime status may run."""
        return any(state.last_relist_ns for state in self.pleg_state.items.values())

    @property
    def runtime(self) -> cri.RuntimeState:
        return next(iter(self.runtime_state.items.values()), cri.RuntimeState(message="no report of its state yet"))

    def runtime_name(self) -> str:
        return self._named_runtime.name or "nodeplane"

    def network_fault(self) -> str:
        """The reason why pods get no network of their own; empty if they do."""
        return self.runtime.network

    def recursive_mounts(self, runtime_class: str) -> bool:
        """Return True if the runtime supports recursive read-only mounts.

        The handler of a RuntimeClass is not known here: with one, every handler must support them.
        """
        handlers = [handler for handler in self._named_runtime.handlers if runtime_class or not handler.name]
        return bool(handlers) and all(handler.recursive_read_only for handler in handlers)

    def placement(self) -> devices.Placement | None:
        """None until the device manager has reported."""
        return self.placements.items.get(devices.NODE)

    def shared_cpus(self) -> str:
        """CPU list of containers without exclusive CPUs; empty if nothing is pinned."""
        placement = self.placement()
        return placement.shared if placement is not None else ""

    def connected_drivers(self) -> Mapping[str, bool] | None:
        """Connection state by driver; None while the device manager is away, since its silence proves nothing."""
        if not self.dra_drivers.synced:
            return None
        return {name: driver.connected for name, driver in self.dra_drivers.items.items()}

    def running_logs(self) -> Iterator[tuple[str, str]]:
        """Id and log path of every running container."""
        for status in list(self.pod_status.items.values()):
            yield from ((run.id, run.log_path) for run in status.containers if run.state == RUNNING)


class BusPleg:
    """Implements dependencies.Pleg."""

    def __init__(self, bus: Bus, streams: Streams) -> None:
        self._bus = bus
        self._streams = streams
        self._slots = asyncio.Semaphore(PARALLEL_QUESTIONS)

    def known(self, uid: str) -> PodStatus | None:
        return self._streams.pod_status.items.get(uid)

    def evented(self) -> bool:
        states = self._streams.pleg_state.items.values()
        return self._streams.pods_synced and any(state.mode == pleg.EVENTED for state in states)

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        question = pleg.GetNewerThan(uid=uid, min_ns=min_ns)
        async with self._slots:
            return await self._bus.call(
                pleg.OWNER,
                pleg.GET_NEWER_THAN,
                question,
                PodStatus,
                timeout=NEWER_S,
                idempotent=True,
            )


class BusDevices:
    """Implements dependencies.Devices."""

    def __init__(self, bus: Bus, streams: Streams) -> None:
        self._bus = bus
        self.shared = streams.shared_cpus
        self._subscribers: list[Callable[[], None]] = []

    def subscribe(self, on_admitted: Callable[[], None]) -> None:
        self._subscribers.append(on_admitted)

    async def admit(self, request: AdmitPod) -> AdmittedPod:
        reply: AdmittedPod = await self._call(devices.ADMIT, request, AdmittedPod, ADMIT_S)
        for subscriber in self._subscribers:  # CPUs of a pod that already runs are known only now
            subscriber()
        return reply

    async def release(self, uid: str) -> None:
        await self._call(devices.RELEASE, devices.ReleasePod(uid), devices.Empty, RELEASE_S)

    async def pre_start(self, uid: str, container: str, resources: tuple[str, ...]) -> None:
        request = devices.PreStart(uid, container, resources)
        await self._call(devices.PRE_START, request, devices.Empty, ADMIT_S)

    async def prepare(self, request: PrepareClaims) -> dict[str, tuple[str, ...]]:
        reply = await self._call(devices.PREPARE_CLAIMS, request, devices.PreparedClaims, PREPARE_S)
        names: dict[str, tuple[str, ...]] = reply.cdi_devices
        return names

    async def unprepare(self, uid: str) -> None:
        request = devices.UnprepareClaims(uid)
        await self._call(devices.UNPREPARE_CLAIMS, request, devices.Empty, PREPARE_S)

    async def reconcile(self, active: tuple[str, ...]) -> None:
        """Send the pods that may hold devices. Not repeated: a list is outdated once pods were admitted after it."""
        request = devices.ReconcilePods(active)
        await self._bus.call(devices.OWNER, devices.RECONCILE, request, devices.Empty, timeout=RELEASE_S)

    async def _call(self, method: str, request: Any, reply: type[Any], timeout: float) -> Any:
        return await self._bus.call(devices.OWNER, method, request, reply, timeout=timeout, idempotent=True)


class DeviceHealthClient:
    """Implements dependencies.DeviceHealth and owns the streams `ended-pods` and `initializing-pods`."""

    def __init__(self, enabled: bool, *, inits: bool = True, claims_by_request: bool = True) -> None:
        """With `inits`, statuses and events also show the devices of plain init containers that have not completed."""
        self.enabled = enabled
        self._claims_by_request = claims_by_request
        self._inits = inits
        self._statuses = Watched[PodResourceStatus]()
        self._statuses.subscribe(on_synced=self._synced)
        self._first_sync: list[Callable[[], None]] = []
        self._allocations = Replica[PodAllocation](self._allocation_changed)
        self._changed = asyncio.Event()
        self._ended: dict[str, EndedPod] = {}
        self._initializing: dict[str, InitializingPod] = {}
        self._stream: Stream | None = None
        self._initializing_stream: Stream | None = None
        self._following: Following[PodAllocation] | None = None

    def subscribe(self, on_change: OnChange[PodResourceStatus], on_first_sync: Callable[[], None]) -> None:
        """`on_first_sync` is called once: pods that were synced during the snapshot saw only a part of it."""
        self._statuses.subscribe(on_change)
        self._first_sync.append(on_first_sync)

    def start(self, bus: Bus) -> None:
        """Own the streams even while the feature gate is off, so that their followers become synced."""
        self._stream = bus.own(podworker.ENDED_PODS, StateSource(self._ended), ring=RING)
        pods = StateSource(self._initializing)
        self._initializing_stream = bus.own(podworker.INITIALIZING_PODS, pods, ring=RING)
        if self.enabled:
            kind = PodResourceStatus
            bus.follow(owner=health.OWNER, stream=health.RESOURCE_STATUS, sink=self._statuses, type=kind)
            given = self._allocations
            self._following = bus.follow(
                owner=devices.OWNER, stream=devices.ALLOCATIONS, sink=given, type=PodAllocation
            )

    def _synced(self) -> None:
        if self.synced:
            subscribers, self._first_sync = self._first_sync, []
            for subscriber in subscribers:
                subscriber()

    def _allocation_changed(self, *change: object) -> None:
        self._changed.set()

    @property
    def synced(self) -> bool:
        return self._statuses.was_synced

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
        if allocation is None:
            return PodHeld()
        pod = self._initializing.get(uid)
        names = pod.containers if pod is not None else ()
        return held_by(allocation, names, by_request=self._claims_by_request)

    async def _wait_for(self, uid: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LATE_S):
                while uid not in self._allocations.items:
                    self._changed.clear()
                    await self._changed.wait()

    def publish_ended(self, spec: PodSpec, held: PodHeld) -> None:
        if self._stream is None or not self.enabled:
            return
        if not held:
            self._publish_initializing(InitializingPod(spec.uid, ()))
        pod = EndedPod(spec.uid, spec.namespace, spec.name, held)
        if held and self._ended.get(spec.uid) != pod:
            self._ended[spec.uid] = pod
            self._stream.publish(Op.UPSERT, spec.uid, pod)
        elif not held and self._ended.pop(spec.uid, None) is not None:
            self._stream.publish(Op.DELETE, spec.uid, pod)

    def publish_initializing(self, uid: str, containers: tuple[str, ...]) -> None:
        """Publish which plain init containers of a pod have yet to complete."""
        if self.enabled and self._inits:
            self._publish_initializing(InitializingPod(uid, containers))

    def _publish_initializing(self, pod: InitializingPod) -> None:
        if self._initializing_stream is None or self._initializing.get(pod.uid, InitializingPod(pod.uid, ())) == pod:
            return
        if pod.containers:
            self._initializing[pod.uid] = pod
            self._initializing_stream.publish(Op.UPSERT, pod.uid, pod)
        else:
            del self._initializing[pod.uid]
            self._initializing_stream.publish(Op.DELETE, pod.uid, pod)
