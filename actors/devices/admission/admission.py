"""Admission of pods to devices: choose, reserve, ask the plugins, commit; all of it or nothing.

Each pod is admitted in a task of its own, so a plugin that hangs delays only the pods that want its devices.
"""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass

from actors.devices.admission.choosing import Chooser, ChooserOptions, refusal
from actors.devices.admission.grants import admitted
from actors.devices.admission.plan import PodPlan, steps
from actors.devices.errors import AdmissionAborted, PluginFailed
from actors.devices.ledger.commit import Commits
from actors.devices.ledger.ledger import Ledger
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.placer import Placer
from actors.devices.metrics import DeviceMetrics
from actors.devices.plugins.inventory import Inventory
from actors.devices.plugins.plugins import Plugins
from actors.devices.types import DeviceKey, PodRecord
from protocols.messages.devices import (
    AdmitPod,
    AdmittedPod,
    AllocatedDevice,
    ContainerAllocation,
    ContainerRequest,
    PodAllocation,
)


@dataclass(frozen=True)
class AdmissionOptions:
    ledger: Ledger
    inventory: Inventory
    plugins: Plugins
    commits: Commits
    metrics: DeviceMetrics
    placer: Placer
    machine: MachineMetrics


class Admissions:
    def __init__(self, options: AdmissionOptions) -> None:
        self._options = options
        self._chooser = Chooser(
            ChooserOptions(options.ledger, options.inventory, options.plugins, options.placer, options.machine)
        )
        self._under_way: dict[str, asyncio.Task[AdmittedPod]] = {}

    async def admit(self, pod: AdmitPod) -> AdmittedPod:
        """Grants of the pod; asked again, the same ones. Raises AdmissionRefused."""
        task = self._under_way.get(pod.uid)
        if task is None:
            known = self._options.ledger.pods.get(pod.uid)
            if known is not None:
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
        record = self._options.ledger.release(uid)
        self._options.placer.release(uid)
        if record is not None:
            await self._options.commits.change(record, deleted=True)

    async def reconcile(self, active: set[str]) -> None:
        """Release every pod that is not `active`. Only right once pod sources have synced."""
        strangers = {*self._options.ledger.strangers(active), *self._options.placer.strangers(active)}
        gone = sorted(strangers - self._under_way.keys())
        await asyncio.gather(*(self.release(uid) for uid in gone))

    async def _admit(self, pod: AdmitPod) -> AdmittedPod:
        try:
            with self._options.machine.admission():
                plan = self._chooser.keep_running(pod) if pod.running else await self._chooser.choose(pod)
                record = PodRecord(allocation=self._allocation(pod, plan), responses=await self._allocate(plan))
            self._options.ledger.admit(record)
        except PluginFailed as error:
            raise refusal(str(error)) from None
        finally:
            self._chooser.give_back(pod.uid)
        await self._options.commits.change(record)
        return admitted(record)

    async def _allocate(self, plan: PodPlan) -> dict[str, dict[str, bytes]]:
        """One call per container and resource, in the order they were chosen."""
        responses: dict[str, dict[str, bytes]] = {}
        for container, parts in plan.chosen.items():
            for resource, ids in parts.items():
                plugin = self._options.plugins.serving(resource)
                answer = await self._timed(resource, plugin.allocate(ids))
                responses.setdefault(container, {})[resource] = answer
        return responses

    async def _timed(self, resource: str, call: Awaitable[bytes]) -> bytes:
        begin = time.perf_counter()
        try:
            return await call
        finally:
            self._options.metrics.allocate.labels(resource).observe(time.perf_counter() - begin)

    def _allocation(self, pod: AdmitPod, plan: PodPlan) -> PodAllocation:
        containers = tuple(self._container(pod.uid, item, plan.chosen.get(item.name, {})) for item in pod.containers)
        return PodAllocation(uid=pod.uid, namespace=pod.namespace, name=pod.name, containers=containers)

    def _container(self, uid: str, container: ContainerRequest, chosen: dict[str, list[str]]) -> ContainerAllocation:
        devices = tuple(self._device(resource, id) for resource in sorted(chosen) for id in sorted(chosen[resource]))
        placed = self._options.placer.placed(uid, container.name)
        cpus = tuple(sorted(placed.cpus))
        return ContainerAllocation(container.name, container.kind, devices, cpus, placed.memory)

    def _device(self, resource: str, id: str) -> AllocatedDevice:
        reported = self._options.inventory.reported(DeviceKey(resource, id))
        return AllocatedDevice(resource=resource, id=id, numa=reported.numa if reported else ())


def check_unchanged(pod: AdmitPod, known: PodAllocation) -> None:
    """Raise AdmissionRefused when a pod that has devices now asks for another number of them."""
    held = {container.name: [device.resource for device in container.devices] for container in known.containers}
    for container, resource, count in steps(pod):
        had = held.get(container.name, []).count(resource)
        if had and had != count:
            raise refusal(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {had} to {count}"
            )
