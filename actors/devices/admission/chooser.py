"""Choose what each container of a pod gets, and reserve it.

For each container: merge the topology hints, place CPUs and memory, then pick devices. Deterministic: the same state
gives the same devices.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from actors.devices.admission.grants import PodPlan, pod_steps
from actors.devices.calls.log import Purpose
from actors.devices.calls.outcomes import POD_REJECTED
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.placer import Placer
from actors.devices.model.errors import PlacementFailed, PlacementOutdated, TopologyAffinity
from actors.devices.plugins.connections import PluginConnections
from actors.devices.topology.hints import DeviceRequest, Hint, ProviderHints, Sorted, device_hints, sort_by_hint
from protocols.lifecycle.devices.choice import check_present, choose, follow_preference, free_devices
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger
from protocols.lifecycle.devices.plan import in_order, rejection, steps
from protocols.lifecycle.devices.types import DeviceKey
from protocols.lifecycle.errors import AdmissionRejected
from protocols.messages.devices import AdmitPod, ContainerRequest

MAX_ATTEMPTS = 5
"""Attempts to find an aligned placement while other pods are admitted during calls to the plugin."""


class ChooserOptions(msgspec.Struct, frozen=True):
    """Parts of the device manager from which devices, CPUs and memory are chosen."""

    ledger: Ledger
    inventory: Inventory
    plugins: PluginConnections
    placer: Placer
    metrics: MachineMetrics


class PickRequest(msgspec.Struct, frozen=True):
    """Devices of one resource for one container."""

    uid: str
    resource: str
    count: int
    purpose: Purpose


class Chooser:
    """Chooses and reserves under a pod's uid; nothing is on disk or known to plugins yet."""

    def __init__(self, options: ChooserOptions) -> None:
        self._options = options
        self._placer = options.placer

    async def choose(self, pod: AdmitPod) -> PodPlan:
        """Reserve devices, CPUs and memory for every container under the pod's uid.

        Resources that this node never had are ignored: they are not managed here. After an error call `cancel`.
        Raises AdmissionRejected or PluginFailed.
        """
        for _, resource, _ in self._managed_steps(pod):
            await self._options.plugins.wait_registered(resource)
        for _ in range(MAX_ATTEMPTS):
            try:
                return await self._attempt(pod)
            except PlacementOutdated:
                self.cancel(pod.uid)
        raise TopologyAffinity

    def reserve_running(self, pod: AdmitPod) -> PodPlan:
        """Reserve what the containers of a running but unknown pod report they hold, without calling plugins."""
        plan = PodPlan()
        for container in in_order(pod):
            for resource, ids in sorted(container.held.items()):
                if "/" in resource and (mine := self._reserve_available(pod.uid, resource, ids)):
                    plan.take(container, resource, mine)
        self.place_leniently(pod, plan)
        return plan

    def place_leniently(self, pod: AdmitPod, plan: PodPlan) -> None:
        """Place CPUs and memory of a pod that is admitted in any case; it shares what it cannot have."""
        for container in in_order(pod):
            with contextlib.suppress(PlacementFailed, AdmissionRejected):
                self._placer.place_running(pod, container, plan.init_resources)

    def _reserve_available(self, uid: str, resource: str, ids: Sequence[str]) -> list[str]:
        """Reserve those of the ids that no other pod holds, and return them."""
        owners = self._options.ledger.owners
        mine = [id for id in ids if owners.get(DeviceKey(resource, id), uid) == uid]
        self._options.ledger.reserve(uid, [DeviceKey(resource, id) for id in mine])
        return mine

    def cancel(self, uid: str) -> None:
        """Free what was reserved for a pod that was not admitted."""
        self._options.ledger.cancel(uid)
        if uid not in self._options.ledger.pods:
            self._placer.release(uid)

    async def _attempt(self, pod: AdmitPod) -> PodPlan:
        plan = PodPlan()
        hint = self._pod_hint(pod) if self._placer.by_pod else None
        for container in in_order(pod):
            await asyncio.sleep(0)  # a container may cost a scan of 20,000 devices, and a pod has many
            container_hint = hint or self._decide(self._container_providers(pod, container, plan))
            self._place(pod, container, container_hint, plan)
            for resource, count in self._requested(container):
                purpose = Purpose(f"{pod.namespace}/{pod.name} {container.name}", POD_REJECTED)
                picked = await self._pick(PickRequest(pod.uid, resource, count, purpose), plan, container_hint)
                plan.take(container, resource, picked)
            if not self._placer.by_pod:
                self._aligned()
        if self._placer.by_pod:
            self._aligned()
        return plan

    def _aligned(self) -> None:
        rules = self._placer.rules
        self._options.metrics.aligned(rules.scope, rules.policy)

    def _place(self, pod: AdmitPod, container: ContainerRequest, hint: Hint, plan: PodPlan) -> None:
        failed: PlacementFailed | AdmissionRejected | None = None
        try:
            self._placer.place(pod, container, hint, plan.init_resources)
        except PlacementFailed as error:
            failed = error
            raise rejection(str(error)) from None
        except AdmissionRejected as error:
            failed = error
            raise
        finally:
            cpus, memory = self._placer.requests(pod, container)
            self._options.metrics.pinning(cpus, memory, failed)
            if cpus and self._placer.cpus is not None:
                taken = self._placer.placed(pod.uid, container.name).cpus
                self._options.metrics.aligned_cpus(self._placer.cpus, taken)

    # hints

    def _pod_hint(self, pod: AdmitPod) -> Hint:
        requested = {resource: count for resource, count in pod_steps(pod).items() if self._is_managed(resource)}
        return self._decide([self._device_hints(requested, PodPlan()), *self._placer.pod_hints(pod)])

    def _decide(self, providers: list[ProviderHints]) -> Hint:
        try:
            return self._placer.decide(providers)
        except TopologyAffinity:
            self._options.metrics.unaligned(self._placer.rules.scope, self._placer.rules.policy)
            raise

    def _container_providers(self, pod: AdmitPod, container: ContainerRequest, plan: PodPlan) -> list[ProviderHints]:
        if not self._placer.aligns:
            return []
        devices = self._device_hints(dict(self._requested(container)), plan)
        return [devices, *self._placer.container_hints(pod, container, plan.init_resources)]

    def _device_hints(self, requested: dict[str, int], plan: PodPlan) -> ProviderHints:
        if not self._placer.aligns:
            return None
        hints = {}
        for resource, count in requested.items():
            free = self._options.ledger.free(resource, self._options.inventory.healthy(resource))
            request = DeviceRequest(count, self._numa(resource), free, plan.reusable(resource))
            hints[resource] = device_hints(request, self._placer.nodes)
        return hints

    # devices

    async def _pick(self, requested: PickRequest, plan: PodPlan, hint: Hint) -> list[str]:
        resource, count = requested.resource, requested.count
        check_present(resource, count, self._options.inventory, self._options.ledger)
        reused = plan.reuse(resource, count)
        need = count - len(reused)
        if need == 0:
            return reused
        preferred = await self._preferred(requested, self._sorted(resource, need, hint), reused)
        candidates = self._sorted(resource, need, hint)  # others may have been admitted during the call
        picked = self._fill(resource, need, candidates, preferred)
        self._options.ledger.reserve(requested.uid, [DeviceKey(resource, id) for id in picked])
        return reused + picked

    def _sorted(self, resource: str, need: int, hint: Hint) -> Sorted:
        """Group free devices by how they fit the hint. Raises PlacementOutdated if the hinted ones are taken."""
        numa = self._numa(resource)
        free = free_devices(resource, need, self._options.inventory, self._options.ledger)
        candidates = sort_by_hint(free, numa, hint.mask)
        if self._placer.strict and hint.mask is not None and any(numa.values()) and len(candidates.aligned) < need:
            raise PlacementOutdated
        return candidates

    async def _preferred(self, requested: PickRequest, found: Sorted, reused: list[str]) -> list[str]:
        """Ask the plugin for its preference, unless the aligned devices are exactly enough."""
        count, purpose = requested.count, requested.purpose
        plugin = self._options.plugins.serving(requested.resource)
        need = count - len(reused)
        if not plugin.options.preferred or need == len(found.aligned):
            return []
        if need < len(found.aligned):
            return await plugin.preferred(sorted({*found.aligned, *reused}), reused, count, purpose)
        taken = [*reused, *found.aligned]
        return await plugin.preferred(sorted({*taken, *found.unaligned, *found.indifferent}), taken, count, purpose)

    def _fill(self, resource: str, need: int, found: Sorted, preferred: Sequence[str]) -> list[str]:
        """Pick aligned devices first; within a group those the plugin prefers, then those close together."""
        if need < len(found.aligned):
            return self._complete(resource, need, found.aligned, preferred)
        picked = list(found.aligned)
        rest = [*found.unaligned, *found.indifferent]
        picked += follow_preference(preferred, picked, need - len(picked), rest)
        taken = set(picked)
        left = [[id for id in group if id not in taken] for group in (found.unaligned, found.indifferent)]
        picked += left[0][: need - len(picked)]
        return picked + self._complete(resource, need - len(picked), left[1], ())

    def _complete(self, resource: str, need: int, ids: Sequence[str], preferred: Sequence[str]) -> list[str]:
        picked = follow_preference(preferred, (), need, ids)
        taken = set(picked)
        return picked + choose(need - len(picked), [id for id in ids if id not in taken], self._numa(resource))

    def _numa(self, resource: str) -> dict[str, tuple[int, ...]]:
        """Return the NUMA nodes of the devices that have a topology."""
        return self._options.inventory.resources[resource].numa

    def _managed_steps(self, pod: AdmitPod) -> list[tuple[ContainerRequest, str, int]]:
        return [step for step in steps(pod) if self._is_managed(step[1])]

    def _requested(self, container: ContainerRequest) -> list[tuple[str, int]]:
        return [(name, n) for name, n in sorted(container.resources.items()) if n > 0 and self._is_managed(name)]

    def _is_managed(self, resource: str) -> bool:
        return resource in self._options.inventory.resources
