"""Place containers on CPUs and NUMA nodes under the topology policy. Synchronous; one writer.

With every policy at its default there are no pools and no hints.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.devices.cpu.pool import CpuPool, pod_need
from actors.devices.cpu.topology import NOTHING, Cpus
from actors.devices.memory.nodes import Blocks
from actors.devices.memory.pool import MemoryPool, ReusableMemory
from actors.devices.model.errors import TopologyAffinity
from actors.devices.topology.hints import NOWHERE_GOOD, Hint, NumaInfo, ProviderHints, mask_of
from actors.devices.topology.policy import BEST_EFFORT, NONE, POD, HintOrder, decide
from protocols.lifecycle.devices.plan import in_order
from protocols.messages.devices import AdmitPod, ContainerRequest, PodAllocation
from protocols.node.cpulist import MOST, is_number

INIT = "init"
CPUS, NODES = "cpu", "numa"
"""Keys of a running container's CPUs and memory nodes, beside its devices, in what it reports to hold."""


class Placed(NamedTuple):
    """Exclusive CPUs and memory of one container."""

    cpus: Cpus = NOTHING
    memory: Blocks = ()


class InitResources:
    """CPUs and memory of a pod's init containers, which later containers may reuse."""

    def __init__(self) -> None:
        self.cpus: Cpus = NOTHING
        self.memory = ReusableMemory()

    def took(self, container: ContainerRequest, placed: Placed) -> None:
        """Record a placement. Sidecars and app containers keep what they take."""
        self.cpus = self.cpus | placed.cpus if container.kind == INIT else self.cpus - placed.cpus
        self.memory.took(container.name, container.kind, placed.memory)


def reported_placement(container: ContainerRequest) -> tuple[Cpus, Hint]:
    """Return the CPUs and the memory hint that a running container reports; nothing if they are malformed."""
    cpus, nodes = (container.held.get(name, ()) for name in (CPUS, NODES))
    if not all(is_number(text) and int(text) < MOST for text in (*cpus, *nodes)):
        return NOTHING, Hint(None, False)
    return frozenset(map(int, cpus)), Hint(mask_of(map(int, nodes)) or None, False)


def whole_cpus(pod: AdmitPod, container: ContainerRequest) -> int:
    """Return the number of exclusive CPUs: only whole CPUs of Guaranteed pods are exclusive."""
    return container.cpu // 1000 if pod.guaranteed and container.cpu % 1000 == 0 else 0


def bound_memory(pod: AdmitPod, container: ContainerRequest) -> dict[str, int]:
    """Return the bytes by type that are to be bound to NUMA nodes."""
    return {kind: size for kind, size in container.memory.items() if size > 0} if pod.guaranteed else {}


class Rules(NamedTuple):
    """Topology policy of this node."""

    numa: NumaInfo
    policy: str = NONE
    scope: str = "container"
    closest: bool = False


class Placer:
    """`cpus` and `memory` are None while their manager's policy is none."""

    def __init__(self, rules: Rules, cpus: CpuPool | None, memory: MemoryPool | None) -> None:
        self.rules = rules
        self.cpus = cpus
        self.memory = memory

    @property
    def aligns(self) -> bool:
        return self.rules.policy != NONE

    @property
    def pins(self) -> bool:
        """True if pods may have exclusive CPUs or memory, so that allocations change the shared pool."""
        return self.cpus is not None or self.memory is not None

    @property
    def strict(self) -> bool:
        """True if a pod is rejected when its hint cannot be met."""
        return self.rules.policy not in (NONE, BEST_EFFORT)

    @property
    def by_pod(self) -> bool:
        return self.rules.scope == POD

    @property
    def nodes(self) -> Sequence[int]:
        return self.rules.numa.nodes

    # hints

    def decide(self, providers: Sequence[ProviderHints]) -> Hint:
        """Merge hints. Raises TopologyAffinity."""
        if not self.aligns:
            return NOWHERE_GOOD
        verdict = decide(self.rules.policy, providers, HintOrder(self.rules.numa, self.rules.closest))
        if not verdict.admit:
            raise TopologyAffinity
        return verdict.hint

    def container_hints(
        self, pod: AdmitPod, container: ContainerRequest, init_resources: InitResources
    ) -> list[ProviderHints]:
        """Return the hints of CPUs, then of memory."""
        need, request = whole_cpus(pod, container), bound_memory(pod, container)
        held = self.placed(pod.uid, container.name)
        cpus, memory = self._cpu_hints(need, init_resources.cpus), self._memory_hints(request, init_resources.memory)
        if self.cpus is not None and held.cpus:
            cpus = {"cpu": self.cpus.held_hints(need, held.cpus)}
        if self.memory is not None and held.memory:
            memory = {kind: self.memory.held_hints(request, held.memory) for kind in request}
        return [cpus, memory]

    def pod_hints(self, pod: AdmitPod) -> list[ProviderHints]:
        """Return the hints of the pod's peak need; what it has from before a restart stays its own."""
        kinds = sorted({kind for container in pod.containers for kind in bound_memory(pod, container)})
        ordered = in_order(pod)
        memory = {kind: pod_need((c.kind, bound_memory(pod, c).get(kind, 0)) for c in ordered) for kind in kinds}
        cpus = pod_need((c.kind, whole_cpus(pod, c)) for c in ordered)
        held = [self.placed(pod.uid, container.name) for container in ordered]
        own = NOTHING.union(*(placed.cpus for placed in held))
        bound = any(placed.memory for placed in held)
        return [self._cpu_hints(cpus, own), None if bound else self._memory_hints(memory, ReusableMemory())]

    def _cpu_hints(self, need: int, reusable: Cpus) -> ProviderHints:
        return {"cpu": self.cpus.hints(need, reusable)} if self.cpus is not None and need else None

    def _memory_hints(self, request: Mapping[str, int], reuse: ReusableMemory) -> ProviderHints:
        if self.memory is None or not request:
            return None
        hints = self.memory.hints(request, reuse)
        return {kind: list(hints) for kind in request}

    # holdings

    def place(self, pod: AdmitPod, container: ContainerRequest, hint: Hint, init_resources: InitResources) -> None:
        """Reserve CPUs and memory; what the container has already stays. `release` frees them.

        Raises PlacementFailed or SmtAlignment.
        """
        need, request = whole_cpus(pod, container), bound_memory(pod, container)
        held = self.placed(pod.uid, container.name)
        if self.cpus is not None and need and len(held.cpus) != need:
            self.cpus.take(pod.uid, container.name, need, hint, init_resources.cpus)
        if self.memory is not None and request and not held.memory:
            self.memory.take(pod.uid, container.name, request, hint, init_resources.memory)
        init_resources.took(container, self.placed(pod.uid, container.name))

    def place_running(self, pod: AdmitPod, container: ContainerRequest, init_resources: InitResources) -> None:
        """Place a running container on the CPUs and nodes it was started with, if they are available."""
        cpus, hint = reported_placement(container)
        if self.cpus is not None and len(cpus) == whole_cpus(pod, container):
            self.cpus.restore(pod.uid, container.name, cpus)
        if hint.mask is not None and hint.mask & ~self.rules.numa.everything:
            hint = NOWHERE_GOOD
        self.place(pod, container, hint, init_resources)

    def requests(self, pod: AdmitPod, container: ContainerRequest) -> tuple[bool, bool]:
        """Return whether the container requests exclusive CPUs, and bound memory."""
        cpus = self.cpus is not None and whole_cpus(pod, container) > 0
        return cpus, self.memory is not None and bool(bound_memory(pod, container))

    def placed(self, uid: str, container: str) -> Placed:
        cpus = self.cpus.held.get(uid, {}).get(container, NOTHING) if self.cpus is not None else NOTHING
        memory = self.memory.held.get(uid, {}).get(container, ()) if self.memory is not None else ()
        return Placed(cpus, memory)

    def release(self, uid: str) -> None:
        for pool in (self.cpus, self.memory):
            if pool is not None:
                pool.release(uid)

    def orphans(self, active: set[str]) -> list[str]:
        """Return pods restored from state files that are not in `active`."""
        return sorted({uid for pool in (self.cpus, self.memory) if pool is not None for uid in pool.held} - active)

    def adopt(self, pod: PodAllocation) -> list[str]:
        """Restore a pod's allocation. Return warnings about conflicts with other pods."""
        cpus = {c.name: frozenset(c.cpus) for c in pod.containers if c.cpus}
        memory = {c.name: c.memory for c in pod.containers if c.memory}
        conflicts = []
        if self.cpus is not None and cpus and not self.cpus.adopt(pod.uid, cpus):
            conflicts.append("CPUs that another pod has too")
        if self.memory is not None and memory and not self.memory.adopt(pod.uid, memory):
            conflicts.append("more memory than its NUMA nodes have left")
        return [f"pod {pod.namespace}/{pod.name} holds {what}; it keeps running" for what in conflicts]
