"""After a start without memory: what runs claims its devices before anybody else gets some."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from actors.devices.admission.chooser import Chooser, ChooserOptions
from actors.devices.admission.grants import Records, admitted
from actors.devices.admission.plan import PodPlan, check_healthy, check_unchanged, ids_by_resource, refusal, steps
from actors.devices.ledger.committer import Commits
from actors.devices.ledger.kubelet_checkpoint import FOREIGN_BOOT
from actors.devices.ledger.ledger import Ledger, held_by
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.placer import Placer
from actors.devices.model.errors import AdmissionAborted, AdmissionRefused, PluginFailed
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import Limits, PodRecord
from actors.devices.plugins.connections import Plugins
from actors.devices.plugins.inventory import Inventory
from protocols.messages.devices import AdmitPod, AdmittedPod


class Claiming:
    """Over at once when nothing was lost; else some time after podworker has told which pods there are."""

    def __init__(self, lost: bool, limits: Limits) -> None:
        self._limits = limits
        self._until = time.monotonic() + limits.claiming if lost else 0.0
        self._sooner = asyncio.Event()

    def told(self) -> None:
        """podworker knows every pod of the node, and asks for those that run."""
        self._until = min(self._until, time.monotonic() + self._limits.claimed)
        self._sooner.set()

    async def over(self) -> None:
        while (left := self._until - time.monotonic()) > 0:
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._sooner.wait()


Responses = dict[str, dict[str, bytes]]
"""By container, then resource."""


@dataclass(frozen=True)
class Allocator:
    plugins: Plugins
    metrics: DeviceMetrics
    log: logging.Logger

    async def all(self, plan: PodPlan) -> Responses:
        """In the order the devices were chosen; raises PluginFailed at the first that fails."""
        responses: Responses = {}
        for container, parts in plan.chosen.items():
            for resource, ids in parts.items():
                responses.setdefault(container, {})[resource] = await self._timed(resource, ids)
        return responses

    async def what_can_be_had(self, plan: PodPlan) -> Responses:
        """For a pod that runs already: what is missing matters only when a container of it starts again."""
        responses: Responses = {}
        for container, parts in plan.chosen.items():
            for resource, ids in parts.items():
                try:
                    await self.plugins.returned(resource)
                    responses.setdefault(container, {})[resource] = await self._timed(resource, ids)
                except PluginFailed as error:
                    self.log.warning("container %s may miss what %s gave it: %s", container, resource, error)
        return responses

    async def _timed(self, resource: str, ids: list[str]) -> bytes:
        plugin = self.plugins.serving(resource)
        begin = time.perf_counter()
        try:
            return await plugin.allocate(ids)
        finally:
            self.metrics.allocate.labels(resource).observe(time.perf_counter() - begin)


@dataclass(frozen=True)
class AdmissionOptions:
    ledger: Ledger
    inventory: Inventory
    plugins: Plugins
    commits: Commits
    allocator: Allocator
    placer: Placer
    machine: MachineMetrics
    claims: Claiming
    boot: str
    """Of the machine now: a pod admitted in another one has to prove that its devices are well."""


class Admissions:
    def __init__(self, options: AdmissionOptions) -> None:
        self._options = options
        self._records = Records(options.inventory, options.placer)
        self._chooser = Chooser(
            ChooserOptions(options.ledger, options.inventory, options.plugins, options.placer, options.machine)
        )
        self._under_way: dict[str, asyncio.Task[AdmittedPod]] = {}

    async def admit(self, pod: AdmitPod) -> AdmittedPod:
        """Grants of the pod; asked again, the same ones. Raises AdmissionRefused or NotEnoughResource."""
        task = self._under_way.get(pod.uid)
        if task is None:
            known = self._options.ledger.pods.get(pod.uid)
            if known is not None and known.named and known.boot in ("", self._options.boot):
                check_unchanged(pod, known.allocation)
                return admitted(known)
            task = self._begin(pod)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise AdmissionAborted(f"pod {pod.namespace}/{pod.name} was released meanwhile") from None
            raise

    def _begin(self, pod: AdmitPod) -> "asyncio.Task[AdmittedPod]":
        task = asyncio.create_task(self._admit(pod), name=f"admit {pod.uid}")
        self._under_way[pod.uid] = task
        task.add_done_callback(lambda done: self._end(pod.uid, done))
        return task

    def _end(self, uid: str, task: "asyncio.Task[AdmittedPod]") -> None:
        del self._under_way[uid]
        if not task.cancelled():
            task.exception()  # its waiters have it; none of them may be left

    async def release(self, uid: str) -> None:
        """The pod's devices are free, durably, when this returns. Ends an admission under way."""
        task = self._under_way.get(uid)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._free(uid)

    async def _free(self, uid: str) -> None:
        record = self._options.ledger.release(uid)
        self._options.placer.release(uid)
        if record is not None:
            await self._options.commits.change(record, deleted=True)

    async def reconcile(self, active: set[str]) -> None:
        """Release every pod that is not `active`. Only right once pod sources have synced."""
        self._options.claims.told()
        strangers = {*self._options.ledger.strangers(active), *self._options.placer.strangers(active)}
        gone = sorted(strangers - self._under_way.keys())
        await asyncio.gather(*(self.release(uid) for uid in gone))

    async def _admit(self, pod: AdmitPod) -> AdmittedPod:
        known = self._options.ledger.pods.get(pod.uid)
        try:
            with self._options.machine.admission():
                record = await (self._anew(pod) if known is None else self._again(pod, known))
            self._options.ledger.admit(record)
        except PluginFailed as error:
            raise refusal(str(error)) from None
        finally:
            self._chooser.give_back(pod.uid)
        await self._options.commits.change(record, update=known is not None and known.named)
        return admitted(record)

    async def _anew(self, pod: AdmitPod) -> PodRecord:
        if pod.running:
            return await self._found_running(pod)
        await self._options.claims.over()
        plan = await self._chooser.choose(pod)
        responses = await self._options.allocator.all(plan)
        return PodRecord(self._records.of_plan(pod, plan), responses, self._options.boot)

    async def _found_running(self, pod: AdmitPod) -> PodRecord:
        """The ledger was lost, the pod runs: it keeps what its containers were started with."""
        plan = self._chooser.keep_running(pod)
        held = {resource for parts in plan.chosen.values() for resource in parts}
        self._options.plugins.expect(held - self._options.inventory.resources.keys())
        responses = await self._options.allocator.what_can_be_had(plan)
        return PodRecord(self._records.of_plan(pod, plan), responses, self._boot_of(pod, plan))

    def _boot_of(self, pod: AdmitPod, plan: PodPlan) -> str:
        """A pod whose containers could not tell what they hold is looked at again once they do not run."""
        complete = all(resource in plan.chosen.get(container.name, {}) for container, resource, _ in steps(pod))
        return self._options.boot if complete else FOREIGN_BOOT

    async def _again(self, pod: AdmitPod, known: PodRecord) -> PodRecord:
        """It was admitted before the machine booted, or by a kubelet."""
        if not pod.running and not held_by(known.allocation):
            return await self._anew(pod)
        try:
            check_unchanged(pod, known.allocation)
            if not pod.running:
                await self._check_held(known)
        except AdmissionRefused:
            await self._free(pod.uid)
            raise
        if not known.named:
            self._chooser.keep_place(pod, PodPlan())
        allocation = self._records.named(pod, known)
        return msgspec.structs.replace(known, allocation=allocation, boot=self._boot_again(pod, known))

    def _boot_again(self, pod: AdmitPod, known: PodRecord) -> str:
        """What runs and asks for devices of which nobody knows anything proves nothing."""
        untold = pod.running and not held_by(known.allocation) and any(steps(pod))
        return FOREIGN_BOOT if untold else self._options.boot

    async def _check_held(self, known: PodRecord) -> None:
        for container in known.allocation.containers:
            for resource, ids in sorted(ids_by_resource(container).items()):
                await self._options.plugins.returned(resource)
                check_healthy(resource, ids, self._options.inventory.healthy(resource))
