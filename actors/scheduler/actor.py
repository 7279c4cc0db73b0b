"""scheduler: bind every pending pod to a node that can run it, and allocate devices to its claims.

A process of its own, since scheduling may take long and must not delay what runs already. Owns nothing: assumed writes
and patched devices are rebuilt from the API.
On kill -9 pending pods wait. A claim may be allocated without its pod being bound; its allocation then decides the
node.
If several control planes use one store, only the holder of the lease schedules; the others follow the API and take over
when it expires. Should two schedule all the same, no device is allocated twice (docs/explanation/allocation.md).
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable

from actors.scheduler.affinity.wakeups import placed_topics
from actors.scheduler.claims.devices import DeviceOptions, DynamicResources
from actors.scheduler.claims.volume_claims import VolumeClaims
from actors.scheduler.cycles.binder import Binder
from actors.scheduler.cycles.binding_cycle import BindingCycle
from actors.scheduler.cycles.failed_attempts import FailedAttempts
from actors.scheduler.cycles.metrics import SchedulerMetrics, StateCollector
from actors.scheduler.cycles.queue_waits import QueueWaits
from actors.scheduler.cycles.scheduling_cycle import SchedulingCycle, SchedulingDecision
from actors.scheduler.cycles.shared import Shared
from actors.scheduler.model.claim_demand import DEVICES
from actors.scheduler.model.errors import ObjectUnreadable
from actors.scheduler.model.nominations import Nominations
from actors.scheduler.model.pod_terms import Labels, has_pod_rules
from actors.scheduler.model.queue import NODE_CHANGE, ROOM, Queue
from actors.scheduler.model.views import (
    has_same_requirements,
    has_valid_shape,
    needs_scheduling,
    node_name_of,
    node_view,
    pod_view,
    retained_pod,
)
from actors.scheduler.nodes.node_cache import Cache
from actors.scheduler.preemption.evictor import Evictor
from actors.scheduler.preemption.planner import World
from actors.scheduler.preemption.preemptor import Preemptor
from protocols.actor import Context, run_actor
from protocols.cel.worker.process import with_worker
from protocols.dra.gates import gates_of
from protocols.kinds import views
from protocols.kinds.table import NAMESPACES, NODES, PODS
from protocols.kube.meta import fields_of, key_of, labels_of, meta, name_of, namespace_of, terminating, uid_of
from protocols.kube.pods import is_finished
from protocols.kubeclient.client import ApiClient, ClientOptions, Object
from protocols.kubeclient.election import leader_elector
from protocols.kubeclient.events import EventRecorder, RecorderOptions
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler
from protocols.messages.trace import SEEN
from protocols.process.tasks import wait_set
from protocols.trace import clock, record

NAME = "default-scheduler"
TRACKER = "resource_slice_tracker"
LEASE = "kube-scheduler"
MAX_BINDING_CYCLES = 48
"""Concurrent binding cycles."""
MAX_SEARCHES = 2
"""Concurrent long searches for devices."""
SYNC_TIMEOUT_S = 3600.0
UNSEEN_S = 10.0
"""Time by which the watch shows a binding, or the pod is scheduled again."""


class Scheduler:
    """Takes pods from the queue one at a time; binding cycles run beside it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        cert, key = context.layout.client_cert("scheduler")
        settings = context.settings
        options = ClientOptions(server=settings.api_url, ca=context.layout.ca_cert, cert=cert, key=key)
        self._client = ApiClient(options)
        self._recorder = EventRecorder(self._client, RecorderOptions(component=NAME))
        self._tracker_events = EventRecorder(self._client, RecorderOptions(component=TRACKER))
        self._cache, self._queue, self._waits = Cache(), Queue(), QueueWaits()
        self._pending: dict[str, views.Pod] = {}
        self._with_rules: set[str] = set()
        """Pending pods that have rules about other pods."""
        self._wake = asyncio.Event()
        self._devices = DynamicResources(
            self._client,
            DeviceOptions(
                gates=gates_of(settings.gate),
                changed=self._changed,
                log=context.log,
                recorder=self._tracker_events,
                binding_timeout=settings.device_binding_timeout_s,
                pods=lambda key: self._pods.items.get(key),
            ),
        )
        dice = random.Random(settings.scheduler_seed or None)
        self._pods = Informer(self._client, PODS, InformerOptions(keep=retained_pod), self)
        evictor = Evictor(self._client, self._recorder, context.log, NAME, self._devices.binding.give_way)
        world = World(
            self._cache, self._devices, self._pods.items, Nominations(), evictor.budgets, dice,
            settings.gate("DRAPreemption"),
        )  # fmt: skip
        self._preemptor = Preemptor(world, evictor)
        shared = Shared(
            self._cache,
            self._queue,
            Binder(self._client, self._recorder),
            self._devices,
            VolumeClaims(self._client, context.spawn, self._changed),
            SchedulerMetrics(context.registry),
            context.log,
            self._wake.set,
        )
        self._failed = FailedAttempts(shared, self._preemptor)
        self._scheduling = SchedulingCycle(shared, dice, self._preemptor, self._failed)
        self._binding = BindingCycle(shared, self._failed)
        context.registry.register(StateCollector(lambda: self._queue.counts(time.monotonic()), self._devices))
        self._slots = asyncio.Semaphore(MAX_BINDING_CYCLES)
        self._leader = leader_elector(context, self._client, LEASE)
        nodes = _Nodes(self._cache, self._devices, context.log, self._changed)
        self._nodes = Informer(self._client, NODES, InformerOptions(), nodes)
        namespaces = _Namespaces(self._cache.index.namespaces, self._changed)
        self._namespaces = Informer(self._client, NAMESPACES, InformerOptions(keep=_slim), namespaces)

    async def start(self) -> None:
        await self._client.start()
        spawn = self._context.spawn
        spawn(self._recorder.run(), "events")
        spawn(self._tracker_events.run(), "tracker events")
        for number, informer in enumerate((self._nodes, self._namespaces, self._pods, *self._devices.informers)):
            spawn(informer.run(), f"informer-{number}")
        spawn(self._devices.feed.run(), "slices")
        for number in range(MAX_SEARCHES):
            spawn(self._devices.searches.run(), f"search-{number}")
        spawn(self._devices.searches.run_wide(), "search-wide")
        spawn(self._devices.explanations.run(), "explanations")
        spawn(self._preemptor.run(), "preemption")
        spawn(self._run(), "placement")

    async def stop(self) -> None:
        if self._leader:
            await self._leader.release()
        await self._client.close()

    # pod informer

    def on_add(self, obj: views.Pod) -> None:
        self._observe_pod(obj)

    def on_update(self, old: views.Pod, new: views.Pod) -> None:
        self._observe_pod(new, old)

    def on_delete(self, obj: views.Pod) -> None:
        uid = uid_of(obj)
        self._drop(uid)
        if self._cache.forget(uid):
            self._changed(ROOM)

    def _observe_pod(self, pod: views.Pod, before: views.Pod | None = None) -> None:
        if not has_valid_shape(pod):
            return
        uid, node = uid_of(pod), node_name_of(pod)
        if is_finished(pod):
            self.on_delete(pod)
        elif node:
            self._drop(uid)
            self._count_bound(pod, node)
            if self._with_rules:
                self._wake_for(pod, before)
        elif needs_scheduling(pod, NAME):
            self._observe_nomination(pod, before)
            known = self._pending.get(uid)
            self._pending[uid] = pod
            if has_pod_rules(pod):
                self._with_rules.add(uid)
            if known is None or not has_same_requirements(known, pod):
                record(uid, SEEN, clock(), pod=key_of(pod))
                self._queue.add(uid, _priority(pod))
                if known is None:
                    self._waits.begin(uid)
                self._wake.set()
        else:
            self.on_delete(pod)

    def _count_bound(self, pod: views.Pod, node: str) -> None:
        try:
            if self._cache.place(node, pod_view(pod)):
                self._changed(ROOM)
        except ObjectUnreadable as error:
            self._context.log.warning("bound pod is not counted pod=%s node=%s error=%s", key_of(pod), node, error)

    def _wake_for(self, pod: views.Pod, before: views.Pod | None) -> None:
        """Wake pods whose rules a placed pod may have kept from being met, or may meet now."""
        if before is None or not node_name_of(before):
            self._changed(*placed_topics(namespace_of(pod)))
        elif labels_of(before) != labels_of(pod) or terminating(before) != terminating(pod):
            self._changed(ROOM, *placed_topics(namespace_of(pod)))

    def _observe_nomination(self, pod: views.Pod, before: views.Pod | None) -> None:
        try:
            ended = self._preemptor.observe(pod, before)
        except ObjectUnreadable:
            return  # its scheduling cycle reports it
        if ended:
            self._changed(ROOM, DEVICES)

    def _drop(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._with_rules.discard(uid)
        self._queue.remove(uid)
        self._waits.forget(uid)
        if self._preemptor.nominations.remove(uid) is not None:
            self._changed(ROOM, DEVICES)

    def _changed(self, *topics: str) -> None:
        """Wake the pods that wait for one of the topics."""
        if self._queue.changed(*topics):
            self._wake.set()

    # scheduling and binding cycles

    async def _run(self) -> None:
        await asyncio.gather(
            self._nodes.wait_synced(SYNC_TIMEOUT_S),
            self._namespaces.wait_synced(SYNC_TIMEOUT_S),
            self._pods.wait_synced(SYNC_TIMEOUT_S),
            self._devices.wait_synced(SYNC_TIMEOUT_S),
        )
        self._context.ready()
        if self._leader:
            await self._leader.lead(self._context.note)
            self._context.spawn(self._leader.renew(), "lease")
        while True:
            for uid in self._queue.ready(time.monotonic()):
                await self._slots.acquire()
                if self._queue.is_outranked(uid):
                    self._slots.release()
                    self._wake.set()
                    break
                decision = await self._run_scheduling_cycle(uid)
                if decision is None:
                    self._slots.release()
                else:
                    self._context.spawn(self._run_binding_cycle(decision), f"pod {uid}")
            await self._wait_for_work()

    def _check_bound(self, key: str, uid: str) -> None:
        """Schedule a pod again whose binding no watch has shown.

        A backup that was restored right after the binding has the pod as the watch showed it, and no event follows.
        """
        pod = self._pods.items.get(key)
        if pod is not None and uid_of(pod) == uid and not node_name_of(pod):
            self._observe_pod(pod)

    async def _wait_for_work(self) -> None:
        """Wait for a change or the end of the earliest backoff."""
        at = self._queue.next_at()
        if not await wait_set(self._wake, None if at is None else at - time.monotonic()):
            return
        self._wake.clear()

    async def _run_scheduling_cycle(self, uid: str) -> SchedulingDecision | None:
        pod = self._pending.get(uid)
        if pod is None:
            self._queue.remove(uid)
            return None
        if not self._queue.start(uid):
            return None
        self._waits.end(uid)
        decision = await self._scheduling.run(pod)
        if decision is None:
            self._wait_again(uid)
        return decision

    def _wait_again(self, uid: str) -> None:
        if reason := self._queue.waits_for(uid, time.monotonic()):
            self._waits.begin(uid, reason)

    async def _run_binding_cycle(self, decision: SchedulingDecision) -> None:
        """An unknown exception, here or there, ends this attempt only."""
        try:
            if await self._binding.run(decision, self._slots):
                self._drop(decision.view.uid)
                pod = key_of(decision.pod), decision.view.uid
                asyncio.get_running_loop().call_later(UNSEEN_S, self._check_bound, *pod)
        except Exception as error:
            self._failed.broke("binding cycle", decision.pod, error, decision.began)
        finally:
            self._wait_again(decision.view.uid)
            self._slots.release()
            self._wake.set()


def _priority(pod: views.Pod) -> int:
    priority = (pod.get("spec") or {}).get("priority")
    return priority if isinstance(priority, int) else 0


class _Nodes(ResourceEventHandler):
    """Apply Node objects to the cache. Heartbeats without a relevant change wake no pod."""

    def __init__(
        self, cache: Cache, devices: DynamicResources, log: logging.Logger, changed: Callable[..., None]
    ) -> None:
        self._cache, self._devices = cache, devices
        self._log = log
        self._changed = changed

    def on_add(self, obj: views.Node) -> None:
        try:
            view = node_view(obj)
        except ObjectUnreadable as error:
            self._log.warning("node ignored name=%s error=%s", name_of(obj), error)
            self._cache.forget_node(name_of(obj))
            return
        if self._cache.node(view):
            self._changed(NODE_CHANGE, ROOM)

    def on_delete(self, obj: views.Node) -> None:
        self._cache.forget_node(name_of(obj))
        self._devices.fit.forget_node(name_of(obj))
        self._changed(NODE_CHANGE, ROOM)  # without a domain, pods may spread over the others


class _Namespaces(ResourceEventHandler):
    """Keep the labels of namespaces, which terms with a namespaceSelector match."""

    def __init__(self, labels: dict[str, Labels], changed: Callable[..., None]) -> None:
        self._labels = labels
        self._changed = changed

    def on_add(self, obj: views.Namespace) -> None:
        if self._labels.get(name_of(obj)) != labels_of(obj):
            self._labels[name_of(obj)] = labels_of(obj)
            self._changed(NODE_CHANGE, ROOM)

    def on_delete(self, obj: views.Namespace) -> None:
        self._labels.pop(name_of(obj), None)


def _slim(namespace: views.Namespace) -> Object:
    kept = ("name", "uid", "resourceVersion", "labels")
    return {"metadata": fields_of(meta(namespace), kept)}


def main(argv: list[str] | None = None) -> None:
    run_actor("scheduler", with_worker(Scheduler), argv)


if __name__ == "__main__":
    main()
