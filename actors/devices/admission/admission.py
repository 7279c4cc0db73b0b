"""Admit pods to devices: choose, reserve, call the plugins, commit; all of it or nothing.

Each pod is admitted in a task of its own, so a plugin that hangs delays only the pods that request its devices.
"""

import asyncio
import logging
import time

import msgspec

from actors.devices.admission.chooser import Chooser, ChooserOptions
from actors.devices.admission.grants import AllocationBuilder, PodPlan, admitted
from actors.devices.calls.log import Purpose
from actors.devices.calls.outcomes import POD_REJECTED
from actors.devices.ledger.committer import Committer
from actors.devices.ledger.kubelet_checkpoint import FOREIGN_BOOT
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.placer import Placer
from actors.devices.model.errors import AdmissionAborted, PluginFailed
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.connections import PluginConnections
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger, held_by
from protocols.lifecycle.devices.plan import check_healthy, check_unchanged, ids_by_resource, rejection, steps
from protocols.lifecycle.devices.types import PodRecord
from protocols.lifecycle.errors import AdmissionRejected
from protocols.messages.devices import AdmitPod, AdmittedPod
from protocols.process.tasks import shared, wait_set
from protocols.trace import span


class RecoveryWindow:
    """Time after a start with a lost checkpoint, in which only running pods are admitted.

    Running pods claim the devices they hold before new pods get any. Without a loss it is closed at once; else it
    closes some time after podworker has listed the pods of the node.
    """

    def __init__(self, lost: bool, limits: CallDeadlines) -> None:
        self._limits = limits
        self._until = time.monotonic() + limits.claiming if lost else 0.0
        self._shortened = asyncio.Event()

    def pods_listed(self) -> None:
        """Shorten the window: podworker knows every pod of the node and readmits those that run."""
        self._until = min(self._until, time.monotonic() + self._limits.claimed)
        self._shortened.set()

    async def wait_closed(self) -> None:
        if self._until <= time.monotonic():
            return
        with span("", "wait for pods"):
            while (left := self._until - time.monotonic()) > 0:
                self._shortened.clear()
                await wait_set(self._shortened, left)


Responses = dict[str, dict[str, bytes]]
"""Raw ContainerAllocateResponse by container, then resource."""


class PluginAllocator(msgspec.Struct, frozen=True):
    """Calls the Allocate method of device plugins."""

    plugins: PluginConnections
    metrics: DeviceMetrics
    log: logging.Logger

    async def allocate_all(self, pod: str, plan: PodPlan) -> Responses:
        """Allocate in the order of the plan. Raises PluginFailed at the first failure."""
        responses: Responses = {}
        for container, parts in plan.chosen.items():
            purpose = Purpose(f"{pod} {container}", POD_REJECTED)
            for resource, ids in parts.items():
                responses.setdefault(container, {})[resource] = await self._timed(resource, ids, purpose)
        return responses

    async def allocate_available(self, pod: str, plan: PodPlan) -> Responses:
        """Allocate for a running pod and log failures: a missing response matters only when a container restarts."""
        responses: Responses = {}
        for container, parts in plan.chosen.items():
            purpose = Purpose(f"{pod} {container}", "the running container goes on without the answer")
            for resource, ids in parts.items():
                try:
                    await self.plugins.wait_registered(resource)
                    responses.setdefault(container, {})[resource] = await self._timed(resource, ids, purpose)
                except PluginFailed as error:
                    self.log.warning("container %s may miss what %s gave it: %s", container, resource, error)
        return responses

    async def _timed(self, resource: str, ids: list[str], purpose: Purpose) -> bytes:
        plugin = self.plugins.serving(resource)
        begin = time.perf_counter()
        try:
            return await plugin.allocate(ids, purpose)
        finally:
            self.metrics.allocate.labels(resource).observe(time.perf_counter() - begin)


class AdmissionOptions(msgspec.Struct, frozen=True):
    """Parts of the device manager that an admission uses."""

    ledger: Ledger
    inventory: Inventory
    plugins: PluginConnections
    committer: Committer
    allocator: PluginAllocator
    placer: Placer
    machine: MachineMetrics
    recovery_window: RecoveryWindow
    boot: str
    """Boot id of the machine now. A pod admitted in another boot must have healthy devices before it starts again."""


class Admissions:
    """Admissions of pods, one task each; a repeated request joins the task of the first."""

    def __init__(self, options: AdmissionOptions) -> None:
        self._options = options
        self._builder = AllocationBuilder(options.inventory, options.placer)
        self._chooser = Chooser(
            ChooserOptions(options.ledger, options.inventory, options.plugins, options.placer, options.machine)
        )
        self._in_progress: dict[str, asyncio.Task[AdmittedPod]] = {}
        self._checked: set[str] = set()
        """Uids of pods whose devices were allocated or found healthy since this process started."""

    async def admit(self, pod: AdmitPod) -> AdmittedPod:
        """Return the grants of a pod. A repeated call returns the same grants.

        Raises:
            AdmissionRejected: The pod cannot have its devices.
            NotEnoughResource: The plugin of a resource left the node long ago.
            AdmissionAborted: The pod was released meanwhile.
        """
        task = self._in_progress.get(pod.uid)
        if task is None:
            known = self._options.ledger.pods.get(pod.uid)
            if known is not None and self._is_current(pod, known):
                check_unchanged(pod, known.allocation)
                return admitted(known)
            task = self._start(pod)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise AdmissionAborted(f"pod {pod.namespace}/{pod.name} was released meanwhile") from None
            raise

    def _is_current(self, pod: AdmitPod, known: PodRecord) -> bool:
        """Return False if a pod must be admitted again before it gets what it holds.

        As in kubelet, one that the runtime lost (a reboot, a drained node) needs healthy devices: its plugin may be
        gone. A crash of this process alone is no such restart: a pod that waits to start keeps what it holds.
        """
        checked = pod.running or pod.present or pod.uid in self._checked or not held_by(known.allocation)
        return known.has_pod_name and known.boot in ("", self._options.boot) and checked

    def _start(self, pod: AdmitPod) -> "asyncio.Task[AdmittedPod]":
        task = shared(self._admit(pod), "admission", pod.uid)
        self._in_progress[pod.uid] = task
        task.add_done_callback(lambda _: self._in_progress.pop(pod.uid))
        return task

    async def release(self, uid: str) -> None:
        """Free the pod's devices and return once that is durable. Cancels an admission in progress."""
        task = self._in_progress.get(uid)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._free(uid)

    async def _free(self, uid: str) -> None:
        self._checked.discard(uid)
        record = self._options.ledger.release(uid)
        self._options.placer.release(uid)
        if record is not None:
            await self._options.committer.change(record, deleted=True)
        else:
            await self._options.committer.wait_pod_written(uid)

    async def reconcile(self, active: set[str]) -> None:
        """Release every pod that is not in `active`. Call it only once all pod sources have synced."""
        self._options.recovery_window.pods_listed()
        orphans = {*self._options.ledger.orphans(active), *self._options.placer.orphans(active)}
        gone = sorted(orphans - self._in_progress.keys())
        await asyncio.gather(*(self.release(uid) for uid in gone))

    async def _admit(self, pod: AdmitPod) -> AdmittedPod:
        known = self._options.ledger.pods.get(pod.uid)
        try:
            with self._options.machine.admission(), span(pod.uid, "allocate"):
                record = await (self._admit_new(pod) if known is None else self._readmit(pod, known))
            self._options.ledger.admit(record)
            self._checked.add(pod.uid)
        except PluginFailed as error:
            raise rejection(str(error)) from None
        finally:
            self._chooser.cancel(pod.uid)
        if record != known:
            with span(pod.uid, "checkpoint"):
                await self._options.committer.change(record, update=known is not None and known.has_pod_name)
        return admitted(record)

    async def _admit_new(self, pod: AdmitPod) -> PodRecord:
        if pod.running:
            return await self._admit_running(pod)
        await self._options.recovery_window.wait_closed()
        plan = await self._chooser.choose(pod)
        responses = await self._options.allocator.allocate_all(f"{pod.namespace}/{pod.name}", plan)
        return PodRecord(self._builder.planned_allocation(pod, plan), responses, self._options.boot)

    async def _admit_running(self, pod: AdmitPod) -> PodRecord:
        """Admit a running pod that the lost ledger had: it keeps what its containers were started with."""
        plan = self._chooser.reserve_running(pod)
        held = {resource for parts in plan.chosen.values() for resource in parts}
        self._options.plugins.expect(held - self._options.inventory.resources.keys())
        responses = await self._options.allocator.allocate_available(f"{pod.namespace}/{pod.name}", plan)
        return PodRecord(self._builder.planned_allocation(pod, plan), responses, self._boot_to_record(pod, plan))

    def _boot_to_record(self, pod: AdmitPod, plan: PodPlan) -> str:
        """Return a boot id that forces another check if the containers do not know all their devices."""
        complete = all(resource in plan.chosen.get(container.name, {}) for container, resource, _ in steps(pod))
        return self._options.boot if complete else FOREIGN_BOOT

    async def _readmit(self, pod: AdmitPod, known: PodRecord) -> PodRecord:
        """Admit a pod again that was admitted before the last boot, or by a kubelet."""
        if not pod.running and not held_by(known.allocation):
            return await self._admit_new(pod)
        try:
            check_unchanged(pod, known.allocation)
            if not pod.running:
                await self._check_held(known)
        except AdmissionRejected:
            await self._free(pod.uid)
            raise
        if not known.has_pod_name:
            self._chooser.place_leniently(pod, PodPlan())
        allocation = self._builder.named_allocation(pod, known)
        return msgspec.structs.replace(known, allocation=allocation, boot=self._boot_after_readmission(pod, known))

    def _boot_after_readmission(self, pod: AdmitPod, known: PodRecord) -> str:
        """Return the boot id to record.

        A running container does not prove that its pod owns devices missing from the ledger.
        """
        unknown = pod.running and not held_by(known.allocation) and any(steps(pod))
        return FOREIGN_BOOT if unknown else self._options.boot

    async def _check_held(self, known: PodRecord) -> None:
        for container in known.allocation.containers:
            for resource, ids in sorted(ids_by_resource(container).items()):
                await self._options.plugins.wait_registered(resource)
                check_healthy(resource, ids, self._options.inventory.healthy(resource))
