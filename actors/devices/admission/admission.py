"""Admission of pods to devices: choose, reserve, ask the plugins, commit; all of it or nothing.

Each pod is admitted in a task of its own, so a plugin that hangs delays only the pods that want its devices.
"""

import asyncio
from dataclasses import dataclass

import msgspec

from actors.devices.admission.allocate import Allocator
from actors.devices.admission.choosing import Chooser, ChooserOptions
from actors.devices.admission.claiming import Claiming
from actors.devices.admission.grants import admitted
from actors.devices.admission.plan import PodPlan, steps
from actors.devices.admission.records import Records
from actors.devices.admission.refusals import check_healthy, check_unchanged, ids_by_resource, refusal
from actors.devices.errors import AdmissionAborted, AdmissionRefused, PluginFailed
from actors.devices.ledger.commit import Commits
from actors.devices.ledger.entries import FOREIGN_BOOT
from actors.devices.ledger.ledger import Ledger, held_by
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.placer import Placer
from actors.devices.plugins.inventory import Inventory
from actors.devices.plugins.plugins import Plugins
from actors.devices.types import PodRecord
from protocols.messages.devices import AdmitPod, AdmittedPod


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
