"""scheduler: gives every pending pod a node that can run it, and every claim of it the devices there.

Why a process: placement may take long and must not delay what is running already.
Owns: nothing; what it assumes of writes under way is rebuilt from the API, patched devices as well.
On kill -9: pending pods wait. A claim may be allocated and its pod not bound; then the claim says which node is right.
Where other control planes use the same store only the one that holds the lease places pods; the others know them all
and take over when it ends. Should two work all the same, no device is given twice (docs/explanation/scheduling.md).
"""

import asyncio
import logging
import time
from collections.abc import Callable

from actors.scheduler.binder import Binder
from actors.scheduler.cache import Cache
from actors.scheduler.dra.devices import Devices
from actors.scheduler.errors import ObjectUnreadable
from actors.scheduler.metrics import SchedulerMetrics, StateCollector
from actors.scheduler.placement import Decision, Placement
from actors.scheduler.queue import ROOM, Queue
from actors.scheduler.views import is_over, node_name_of, node_view, pod_view, readable, same_demand, wants_placement
from protocols.actor import Context, run_actor
from protocols.actor.candidate import candidate
from protocols.dra.patching.types import Gates
from protocols.kube.client import ApiClient, ClientOptions, Object
from protocols.kube.events import EventRecorder, RecorderOptions
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.meta import key_of, name_of, uid_of
from protocols.kube.resources import NODES, PODS

NAME = "default-scheduler"
TRACKER = "resource_slice_tracker"
LEASE = "kube-scheduler"
AT_ONCE = 48
"""Decisions that may be written at the same time."""
SYNC_S = 3600.0


class Scheduler:
    def __init__(self, context: Context) -> None:
        self._context = context
        cert, key = context.layout.client_cert("scheduler")
        settings = context.settings
        options = ClientOptions(server=settings.api_url, ca=context.layout.ca_cert, cert=cert, key=key)
        self._client = ApiClient(options)
        self._recorder = EventRecorder(self._client, RecorderOptions(component=NAME))
        self._tracker_events = EventRecorder(self._client, RecorderOptions(component=TRACKER))
        self._cache, self._queue = Cache(), Queue()
        self._pending: dict[str, Object] = {}
        self._wake = asyncio.Event()
        gates = Gates(settings.gate("DRAAdminControlledDeviceAttributes"), settings.gate("DRADeviceTaints"))
        self._devices = Devices(self._client, gates, self._changed, context.log, self._tracker_events)
        self._placement = Placement(
            self._cache,
            self._queue,
            Binder(self._client, self._recorder),
            self._devices,
            SchedulerMetrics(context.registry),
            context.log,
        )
        context.registry.register(StateCollector(lambda: self._queue.counts(time.monotonic()), self._devices))
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._pods = Informer(self._client, PODS, InformerOptions(), self)
        self._leader = candidate(context, self._client, LEASE)
        nodes = _Nodes(self._cache, self._devices, context.log, self._changed)
        self._nodes = Informer(self._client, NODES, InformerOptions(), nodes)

    async def start(self) -> None:
        await self._client.start()
        spawn = self._context.spawn
        spawn(self._recorder.run(), "events")
        spawn(self._tracker_events.run(), "tracker events")
        for number, informer in enumerate((self._nodes, self._pods, *self._devices.informers)):
            spawn(informer.run(), f"informer-{number}")
        spawn(self._devices.feed.run(), "slices")
        spawn(self._run(), "placement")

    async def stop(self) -> None:
        if self._leader:
            await self._leader.release()
        await self._client.close()

    # pods, as the informer tells them

    def on_add(self, obj: Object) -> None:
        self._take(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._take(new)

    def on_delete(self, obj: Object) -> None:
        uid = uid_of(obj)
        self._drop(uid)
        if self._cache.forget(uid):
            self._changed(ROOM)

    def _take(self, pod: Object) -> None:
        if not readable(pod):
            return
        uid, node = uid_of(pod), node_name_of(pod)
        if is_over(pod):
            self.on_delete(pod)
        elif node:
            self._drop(uid)
            self._count(pod, node)
        elif wants_placement(pod, NAME):
            known = self._pending.get(uid)
            self._pending[uid] = pod
            if known is None or not same_demand(known, pod):
                self._queue.add(uid)
                self._wake.set()
        else:
            self.on_delete(pod)

    def _count(self, pod: Object, node: str) -> None:
        try:
            self._cache.place(node, pod_view(pod))
        except ObjectUnreadable as error:
            self._context.log.warning("pod %s counts as nothing on %s: %s", key_of(pod), node, error)

    def _drop(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._queue.remove(uid)

    def _changed(self, *topics: str) -> None:
        """Something got free or new: who waits for it may fit now."""
        if self._queue.changed(*topics):
            self._wake.set()

    # placement

    async def _run(self) -> None:
        await asyncio.gather(
            self._nodes.wait_synced(SYNC_S), self._pods.wait_synced(SYNC_S), self._devices.wait_synced(SYNC_S)
        )
        self._context.ready()
        if self._leader:
            await self._leader.lead(self._context.note)
            self._context.spawn(self._leader.keep(), "lease")
        while True:
            for uid in self._queue.ready(time.monotonic()):
                await self._slots.acquire()
                decision = await self._decide(uid)
                if decision is None:
                    self._slots.release()
                else:
                    self._context.spawn(self._carry_out(decision), f"pod {uid}")
            await self._rest()

    async def _rest(self) -> None:
        """Until something changed, or the earliest back-off of a pod that is due."""
        at = self._queue.next_at()
        try:
            async with asyncio.timeout(None if at is None else max(0.0, at - time.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _decide(self, uid: str) -> Decision | None:
        pod = self._pending.get(uid)
        if pod is None:
            self._queue.remove(uid)
            return None
        return await self._placement.decide(pod) if self._queue.trying(uid) else None

    async def _carry_out(self, decision: Decision) -> None:
        try:
            if await self._placement.carry_out(decision):
                self._drop(decision.view.uid)
        finally:
            self._slots.release()
            self._wake.set()


class _Nodes:
    """What nodes do to the cache. Heartbeats that change nothing for placement wake nobody."""

    def __init__(self, cache: Cache, devices: Devices, log: logging.Logger, changed: Callable[..., None]) -> None:
        self._cache, self._devices = cache, devices
        self._log = log
        self._changed = changed

    def on_add(self, obj: Object) -> None:
        try:
            view = node_view(obj)
        except ObjectUnreadable as error:
            self._log.warning("node %s is not used: %s", name_of(obj), error)
            self._cache.node_gone(name_of(obj))
            return
        if self._cache.node(view):
            self._changed(ROOM)

    def on_update(self, old: Object, new: Object) -> None:
        self.on_add(new)

    def on_delete(self, obj: Object) -> None:
        self._cache.node_gone(name_of(obj))
        self._devices.fitting.node_gone(name_of(obj))


def main(argv: list[str] | None = None) -> None:
    run_actor("scheduler", Scheduler, argv)


if __name__ == "__main__":
    main()
