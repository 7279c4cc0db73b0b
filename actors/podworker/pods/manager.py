"""Start and notify the pod workers of this node: one per uid, for pods of the API and orphans in the runtime."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable

import msgspec

from actors.podworker.model.dependencies import Dependencies
from actors.podworker.pods.status_manager import UNSHOWN_S
from actors.podworker.pods.volumes.sources import read_versions
from actors.podworker.pods.workers.metrics import PodMetrics
from actors.podworker.pods.workers.worker import RESYNC_S, PodWorker, WorkerOptions
from protocols.bus import Op
from protocols.kinds import views
from protocols.kube.meta import key_of, meta
from protocols.kube.pods import is_finished
from protocols.lifecycle.errors import PodInvalid
from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.resources import shown_sizes
from protocols.lifecycle.pods.types import PodSpec, is_static, object_uid, read_pod
from protocols.lifecycle.status.conditions import OWN
from protocols.messages.devices import ContainerGrant
from protocols.messages.health import PodResourceStatus, health_text
from protocols.messages.pleg import PodStatus
from protocols.messages.trace import DEVICE_HEALTH, RUNTIME_STATUS, SEEN
from protocols.process.tasks import Tasks, restarted
from protocols.trace import clock, record

ORPHAN_GRACE_S = 1
COMPARE_S = 5.0
"""Interval at which what the API acknowledged is compared with what its watch shows."""
PACE_S = 0.02
"""Between two pods whose volumes are updated: one object may be shown by all."""
log = logging.getLogger("podworker")


class ManagerOptions(msgspec.Struct, frozen=True):
    """Dependencies of the workers of this node."""

    deps: Dependencies
    runtime_name: Callable[[], str]
    resources: Callable[[str], PodResourceStatus | None]
    """Returns the latest device health of a pod."""
    started_ns: int
    """Start of this process: older runtime changes may be those of an earlier incarnation."""
    metrics: PodMetrics | None = None


class PodManager:
    """Event handler of the informer. No pod is synced before `begin()`, which needs both API and pleg in sync."""

    def __init__(self, options: ManagerOptions) -> None:
        self._options = options
        self._room = NodeRoom()
        self._pods: dict[str, views.Pod] = {}
        self._workers: dict[str, PodWorker] = {}
        self._tasks = Tasks()
        self._finished: dict[str, float] = {}
        """When a worker has ended, by the uid of a pod that the API still shows."""
        self._finished_subscribers: list[Callable[[str], None]] = []
        self._begun = False

    def subscribe(self, on_finished: Callable[[str], None]) -> None:
        """`on_finished(uid)`: the worker of a pod has ended."""
        self._finished_subscribers.append(on_finished)

    # event handler of the informer

    def on_add(self, obj: views.Pod) -> None:
        self._pods[object_uid(obj)] = obj
        record(object_uid(obj), SEEN, clock(), pod=key_of(obj), static=is_static(obj))
        if self._begun:
            self._run(obj)

    def on_update(self, old: views.Pod, new: views.Pod) -> None:
        self._pods[object_uid(new)] = new
        worker = self._workers.get(object_uid(new))
        if worker is not None:
            try:
                worker.update(new, own_change=not _changed_by_others(old, new))
            except PodInvalid as error:
                log.error("pod update ignored uid=%s error=%s", object_uid(new), error)

    def on_delete(self, obj: views.Pod) -> None:
        uid = object_uid(obj)
        self._pods.pop(uid, None)
        if uid in self._finished:
            self._forget(uid)
            self._end_remains(uid)
        elif worker := self._workers.get(uid):
            worker.removed_from_api(immediate=not is_static(obj))

    # notifications

    def on_status(self, op: Op, uid: str, new: PodStatus | None, old: PodStatus | None) -> None:
        worker = self._workers.get(uid)
        if worker is None:
            if self._begun and new is not None and uid not in self._finished:
                self.orphan(uid, new.namespace, new.name)
        elif op is Op.DELETE:
            worker.lost()
        else:
            record(uid, RUNTIME_STATUS, clock())
            worker.runtime_changed()

    def on_device_health(self, op: Op, uid: str, new: PodResourceStatus | None, old: PodResourceStatus | None) -> None:
        if worker := self._workers.get(uid):
            record(uid, DEVICE_HEALTH, clock(), health=health_text(new))
            worker.set_device_health(new)

    def on_settled(self, uid: str) -> None:
        if worker := self._workers.get(uid):
            worker.wake()

    def retry_all(self) -> None:
        """Retry failed pods now: something they depend on is back."""
        for worker in self._workers.values():
            worker.retry()

    async def keep_resyncing(self) -> None:
        """Resync all idle pods with one wake-up, and check the volumes of all; other pods have their own timers."""
        while True:
            await asyncio.sleep(RESYNC_S - time.monotonic() % RESYNC_S)
            await self.resync()

    async def resync(self) -> None:
        """Sync idle pods with changed inputs, and running ones with outdated volumes, of these one per PACE_S."""
        sources = {source for worker in self._workers.values() for source in worker.sources}
        versions = await read_versions(self._options.deps.objects, sources)
        for worker in list(self._workers.values()):
            worker.resync()
            if worker.outdated(versions):
                worker.wake()
                await asyncio.sleep(PACE_S)

    async def keep_repeating(self) -> None:
        """Repeat what was lost, now and then."""
        while True:
            await asyncio.sleep(COMPARE_S)
            self.repeat_lost()

    def repeat_lost(self) -> None:
        """Do again what the API acknowledged UNSHOWN_S ago if its watch does not show that.

        A backup that was restored right after a status was sent or a pod deleted lacks it. A watch that had not shown
        the write goes on as if nothing had been; one that had begins anew, with pods of lower versions.
        """
        ended_by = time.monotonic() - UNSHOWN_S
        for uid in list(self._pods):
            if worker := self._workers.get(uid):
                self._options.deps.statuses.repeat_lost(worker.state.spec)
            elif self._finished.get(uid, math.inf) <= ended_by:
                self._run_again(uid)

    def wake_all(self) -> None:
        """Sync all pods, after a change that is not an input of single ones."""
        for worker in list(self._workers.values()):
            worker.wake()

    # workers

    def begin(self, present: Iterable[tuple[str, str, str]], ready: Collection[str] = ()) -> None:
        """Start the workers. `present`: uid, namespace and name of every pod in the runtime or with directories here.

        Pods that run already are counted before others are admitted, the oldest first: also those that pleg, which may
        have just started, has not inspected yet. `ready`: uids of all pods with a ready sandbox.
        """
        self._begun = True
        for pod in sorted(self._pods.values(), key=_created_at):
            self._run(pod, fence_ns=self._options.started_ns, ready=object_uid(pod) in ready)
        for uid, namespace, name in present:
            if uid not in self._workers:
                self.orphan(uid, namespace, name)

    def active(self) -> tuple[str, ...]:
        """Return the uids of pods that may hold devices: one with a final phase, until its worker has released them."""
        ended = {uid for uid, pod in self._pods.items() if is_finished(pod) and self._has_released(uid)}
        return tuple(sorted((self._pods.keys() | self._workers.keys()) - ended - self._finished.keys()))

    def _has_released(self, uid: str) -> bool:
        worker = self._workers.get(uid)
        return worker is None or worker.state.released

    def grants_of(self, uid: str) -> tuple[PodSpec, dict[str, ContainerGrant]] | None:
        worker = self._workers.get(uid)
        return (worker.state.spec, worker.state.grants) if worker and worker.state.grants is not None else None

    @property
    def begun(self) -> bool:
        return self._begun

    def readmit(self) -> None:
        """Admit all pods again after the device manager lost its state; running ones report what they hold."""
        for worker in self._workers.values():
            worker.readmit()

    def expire_volumes(self) -> None:
        """Compare all volumes with their sources at the next resync: equal versions may be of different objects."""
        for worker in self._workers.values():
            worker.expire_volumes()

    def has_worker(self, uid: str) -> bool:
        return uid in self._workers

    def republish(self, uid: str) -> None:
        """Send the whole status of a pod whose object in the API was replaced."""
        self._options.deps.statuses.forget(uid)
        if worker := self._workers.get(uid):
            worker.wake()

    def close(self) -> None:
        self._tasks.cancel()

    def orphan(self, uid: str, namespace: str, name: str) -> None:
        """End a pod that the runtime has, or that has left directories, but the API does not know."""
        if not uid or uid in self._pods:
            return
        log.warning("ending orphaned pod pod=%s/%s uid=%s", namespace, name, uid)
        spec = PodSpec(uid=uid, name=name, namespace=namespace, grace=ORPHAN_GRACE_S)
        self._start(spec, gone=True, fence_ns=time.time_ns())

    def _run(self, pod: views.Pod, fence_ns: int = 0, ready: bool = False) -> None:
        try:
            spec = read_pod(pod)
            runs = ready or runtime_status.occupies(self._options.deps.pleg.known(spec.uid))
            if fence_ns and not spec.terminal and runs:
                self._room.count(spec, shown_sizes(pod.get("status") or {}))
        except PodInvalid as error:
            log.error("pod ignored uid=%s error=%s", object_uid(pod), error)
        else:
            self._start(spec, fence_ns=fence_ns)

    def _start(self, spec: PodSpec, gone: bool = False, fence_ns: int = 0) -> None:
        if spec.uid in self._workers:
            return
        self._finished.pop(spec.uid, None)
        self._workers[spec.uid] = self._worker(spec, gone, fence_ns)
        self._tasks.start(self._run_worker(spec.uid), "pod worker", f"{spec.namespace}/{spec.name}")

    def _run_again(self, uid: str) -> None:
        self._options.deps.statuses.forget(uid)
        self._run(self._pods[uid])

    def _worker(self, spec: PodSpec, gone: bool, fence_ns: int) -> PodWorker:
        options = self._options
        worker = PodWorker(
            WorkerOptions(
                spec,
                options.deps,
                options.runtime_name,
                gone,
                fence_ns,
                metrics=options.metrics,
                room=self._room,
                preempt=self._preempt,
            )
        )
        worker.set_device_health(options.resources(spec.uid))
        return worker

    def _preempt(self, uid: str) -> None:
        """End a pod because a critical one needs its room."""
        if worker := self._workers.get(uid):
            worker.preempt()

    async def _run_worker(self, uid: str) -> None:
        """Run the worker of a pod until it has finished, after a crash with a new one: the pod may still run."""
        await restarted(lambda: self._run_once(uid), "pod worker", uid)
        worker = self._workers.pop(uid)
        self._room.discount(uid)
        if uid in self._pods and not worker.state.deleted:  # it came back meanwhile, as after a restored backup
            self._run_again(uid)
            return
        self._finished[uid] = time.monotonic()
        if uid not in self._pods:
            self._forget(uid)
            if await worker.remains():  # their end is that of the pod
                self.orphan(uid, worker.state.spec.namespace, worker.state.spec.name)
                return
        for subscriber in self._finished_subscribers:
            subscriber(uid)  # last: it may add a pod of the same uid

    async def _run_once(self, uid: str) -> None:
        worker = self._workers[uid]
        try:
            await worker.run()
        except Exception:  # its successor knows what a new process would: the runtime and the device manager
            self._workers[uid] = self._worker(worker.state.spec, worker.state.gone, time.time_ns())
            raise

    def _forget(self, uid: str) -> None:
        self._finished.pop(uid, None)
        self._options.deps.statuses.forget(uid)

    def _end_remains(self, uid: str) -> None:
        """End what the runtime made of a pod after it had finished and before the API forgot it."""
        known = self._options.deps.pleg.known(uid)
        if known is not None and runtime_status.occupies(known):
            self.orphan(uid, known.namespace, known.name)


def _created_at(pod: views.Pod) -> str:
    return str(meta(pod).get("creationTimestamp") or "")


def _changed_by_others(old: views.Pod, new: views.Pod) -> bool:
    """Return True if more changed than our own status."""
    return _ours(old) != _ours(new)


def _ours(pod: views.Pod) -> tuple[object, ...]:
    metadata = {k: v for k, v in (pod.get("metadata") or {}).items() if k not in ("resourceVersion", "managedFields")}
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return metadata, pod.get("spec"), [c for c in conditions if c.get("type") not in OWN]
