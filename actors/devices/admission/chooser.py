"""Which free devices a container gets. Deterministic: the same state always gives the same devices."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from actors.devices.admission.plan import PodPlan, pod_steps, refusal, steps
from actors.devices.ledger.ledger import Ledger
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.placer import Placer, in_order
from actors.devices.model.errors import AdmissionRefused, CannotPlace, NotEnoughResource, Overtaken, TopologyAffinity
from actors.devices.model.types import DeviceKey
from actors.devices.plugins.connections import Plugins
from actors.devices.plugins.inventory import Inventory
from actors.devices.topology.hints import DeviceRequest, Hint, ProviderHints, Sorted, device_hints, sort_by_hint
from protocols.messages.devices import AdmitPod, ContainerRequest


def choose(need: int, available: Sequence[str], numa: Mapping[str, tuple[int, ...]]) -> list[str]:
    """`need` ids out of `available` (at least that many), on as few NUMA nodes as a simple rule finds.

    The smallest node that has them all, else the fullest nodes first; within a node by id.
    """
    if not numa:
        return sorted(available)[:need]
    groups = _by_node(available, numa)
    fitting = [node for node, ids in groups.items() if len(ids) >= need]
    if fitting:
        best = min(fitting, key=lambda node: (len(groups[node]), node))
        return groups[best][:need]
    order = sorted(groups, key=lambda node: (-len(groups[node]), node))
    return [id for node in order for id in groups[node]][:need]


def _by_node(ids: Iterable[str], numa: Mapping[str, tuple[int, ...]]) -> dict[int, list[str]]:
    """A device on several nodes counts for its first; -1 = no topology."""
    groups: dict[int, list[str]] = {}
    for id in sorted(ids):
        nodes = numa.get(id, ())
        groups.setdefault(nodes[0] if nodes else -1, []).append(id)
    return groups


def follow_preference(preferred: Iterable[str], taken: Iterable[str], need: int, available: Sequence[str]) -> list[str]:
    """At most `need` of what the plugin prefers, as far as it is free: foreign and repeated ids are passed over."""
    free = set(available) - set(taken)
    kept: list[str] = []
    for id in preferred:
        if id in free and len(kept) < need:
            kept.append(id)
            free.discard(id)
    return kept


TRIES = 5
"""How often a pod looks for an aligned place that others do not take while a plugin thinks."""


@dataclass(frozen=True)
class ChooserOptions:
    ledger: Ledger
    inventory: Inventory
    plugins: Plugins
    placer: Placer
    metrics: MachineMetrics


class Chooser:
    def __init__(self, options: ChooserOptions) -> None:
        self._options = options
        self._placer = options.placer

    async def choose(self, pod: AdmitPod) -> PodPlan:
        """Everything is reserved under the pod's uid. Raises AdmissionRefused or PluginFailed; then give it back.

        A resource this node never had is not ours to judge.
        """
        for _, resource, _ in self._steps(pod):
            await self._options.plugins.returned(resource)
        for _ in range(TRIES):
            try:
                return await self._attempt(pod)
            except Overtaken:
                self.give_back(pod.uid)
        raise TopologyAffinity

    def keep_running(self, pod: AdmitPod) -> PodPlan:
        """Of a pod that runs and that nobody knows: what its containers say they have, CPUs and memory as far as there
        are any, no questions asked."""
        plan = PodPlan()
        for container in in_order(pod):
            for resource, ids in sorted(container.held.items()):
                if "/" in resource and (mine := self._unclaimed(pod.uid, resource, ids)):
                    plan.take(container, resource, mine)
        self.keep_place(pod, plan)
        return plan

    def keep_place(self, pod: AdmitPod, plan: PodPlan) -> None:
        """CPUs and memory of a pod that is let in whatever there is left: what it cannot have it shares."""
        for container in in_order(pod):
            with contextlib.suppress(CannotPlace, AdmissionRefused):
                self._placer.keep(pod, container, plan.passing)

    def _unclaimed(self, uid: str, resource: str, ids: Sequence[str]) -> list[str]:
        """Reserved for the pod, those that no other pod has."""
        owners = self._options.ledger.owners
        mine = [id for id in ids if owners.get(DeviceKey(resource, id), uid) == uid]
        self._options.ledger.reserve(uid, [DeviceKey(resource, id) for id in mine])
        return mine

    def give_back(self, uid: str) -> None:
        """What was reserved and not admitted."""
        self._options.ledger.cancel(uid)
        if uid not in self._options.ledger.pods:
            self._placer.release(uid)

    async def _attempt(self, pod: AdmitPod) -> PodPlan:
        plan = PodPlan()
        hint = self._pod_hint(pod) if self._placer.by_pod else None
        for container in in_order(pod):
            own = hint or self._decide(self._container_providers(pod, container, plan))
            self._place(pod, container, own, plan)
            for resource, count in self._wanted(container):
                plan.take(container, resource, await self._pick(pod.uid, plan, (resource, count), own))
        return plan

    def _place(self, pod: AdmitPod, container: ContainerRequest, hint: Hint, plan: PodPlan) -> None:
        """No pause between the hint and this: nobody can have come between."""
        failed: CannotPlace | AdmissionRefused | None = None
        try:
            self._placer.place(pod, container, hint, plan.passing)
        except CannotPlace as error:
            failed = error
            raise refusal(str(error)) from None
        except AdmissionRefused as error:
            failed = error
            raise
        finally:
            cpus, memory = self._placer.asks(pod, container)
            self._options.metrics.pinning(cpus, memory, failed)

    # hints

    def _pod_hint(self, pod: AdmitPod) -> Hint:
        asked = {resource: count for resource, count in pod_steps(pod).items() if self._is_ours(resource)}
        return self._decide([self._device_hints(asked, PodPlan()), *self._placer.pod_hints(pod)])

    def _decide(self, providers: list[ProviderHints]) -> Hint:
        rules, admitted = self._placer.rules, False
        try:
            hint = self._placer.decide(providers)
            admitted = True
            return hint
        finally:
            self._options.metrics.decided(rules.scope, rules.policy, admitted)

    def _container_providers(self, pod: AdmitPod, container: ContainerRequest, plan: PodPlan) -> list[ProviderHints]:
        if not self._placer.aligns:
            return []
        devices = self._device_hints(dict(self._wanted(container)), plan)
        return [devices, *self._placer.container_hints(pod, container, plan.passing)]

    def _device_hints(self, asked: dict[str, int], plan: PodPlan) -> ProviderHints:
        if not self._placer.aligns:
            return None
        found = {}
        for resource, count in asked.items():
            free = self._options.ledger.free(resource, self._options.inventory.healthy(resource))
            request = DeviceRequest(count, self._numa(resource), free, plan.reusable(resource))
            found[resource] = device_hints(request, self._placer.nodes)
        return found

    # devices

    async def _pick(self, uid: str, plan: PodPlan, asked: tuple[str, int], hint: Hint) -> list[str]:
        resource, count = asked
        self._check(resource, count)
        reused = plan.reuse(resource, count)
        need = count - len(reused)
        if need == 0:
            return reused
        preferred = await self._preferred(asked, self._sorted(resource, need, hint), reused)
        found = self._sorted(resource, need, hint)  # the plugin took its time: others may have been admitted
        picked = self._fill(resource, need, found, preferred)
        self._options.ledger.reserve(uid, [DeviceKey(resource, id) for id in picked])
        return reused + picked

    def _check(self, resource: str, count: int) -> None:
        """Kubelet's words for each way in which a resource has nothing to give."""
        if not self._options.inventory.registered(resource):
            if self._options.ledger.holds(resource):
                raise refusal(f"cannot allocate unregistered device {resource}")
            raise NotEnoughResource(resource, count)
        if not self._options.inventory.healthy(resource):
            raise refusal(f"no healthy devices present; cannot allocate unhealthy devices {resource}")

    def _sorted(self, resource: str, need: int, hint: Hint) -> Sorted:
        """Free devices by how they suit the hint. Raises Overtaken when those it was made for are gone."""
        numa = self._numa(resource)
        found = sort_by_hint(self._free(resource, need), numa, hint.mask)
        if self._placer.strict and hint.mask is not None and any(numa.values()) and len(found.aligned) < need:
            raise Overtaken
        return found

    async def _preferred(self, asked: tuple[str, int], found: Sorted, reused: list[str]) -> list[str]:
        """What the plugin would take. Not asked where the aligned devices are just enough."""
        resource, count = asked
        plugin = self._options.plugins.serving(resource)
        need = count - len(reused)
        if not plugin.options.preferred or need == len(found.aligned):
            return []
        if need < len(found.aligned):
            return await plugin.preferred(sorted({*found.aligned, *reused}), reused, count)
        taken = [*reused, *found.aligned]
        return await plugin.preferred(sorted({*taken, *found.unaligned, *found.indifferent}), taken, count)

    def _fill(self, resource: str, need: int, found: Sorted, preferred: Sequence[str]) -> list[str]:
        """Aligned ones first; inside of a group what the plugin prefers, then what lies together."""
        if need < len(found.aligned):
            return self._complete(resource, need, found.aligned, preferred)
        picked = list(found.aligned)
        rest = [*found.unaligned, *found.indifferent]
        picked += follow_preference(preferred, picked, need - len(picked), rest)
        left = [[id for id in group if id not in picked] for group in (found.unaligned, found.indifferent)]
        picked += left[0][: need - len(picked)]
        return picked + self._complete(resource, need - len(picked), left[1], ())

    def _complete(self, resource: str, need: int, ids: Sequence[str], preferred: Sequence[str]) -> list[str]:
        picked = follow_preference(preferred, (), need, ids)
        taken = set(picked)
        return picked + choose(need - len(picked), [id for id in ids if id not in taken], self._numa(resource))

    def _free(self, resource: str, need: int) -> list[str]:
        free = self._options.ledger.free(resource, self._options.inventory.healthy(resource))
        if len(free) < need:
            raise refusal(
                f"requested number of devices unavailable for {resource}. Requested: {need}, Available: {len(free)}"
            )
        return free

    def _numa(self, resource: str) -> dict[str, tuple[int, ...]]:
        """Of the devices that have a topology."""
        return self._options.inventory.resources[resource].numa

    def _steps(self, pod: AdmitPod) -> list[tuple[ContainerRequest, str, int]]:
        return [step for step in steps(pod) if self._is_ours(step[1])]

    def _wanted(self, container: ContainerRequest) -> list[tuple[str, int]]:
        return [(name, n) for name, n in sorted(container.resources.items()) if n > 0 and self._is_ours(name)]

    def _is_ours(self, resource: str) -> bool:
        return resource in self._options.inventory.resources
