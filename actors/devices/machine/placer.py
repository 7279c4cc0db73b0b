"""CPUs and memory for pods, and the say of the topology policy. Synchronous; one writer.

With every policy at its default it has no pools and asks nobody for hints.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.devices.cpu.pool import CpuPool, pod_need
from actors.devices.cpu.types import NOTHING
from actors.devices.errors import TopologyAffinity
from actors.devices.machine.types import Passing, Placed, bound_memory, in_order, remembered, whole_cpus
from actors.devices.memory.pool import MemoryPool
from actors.devices.memory.reuse import Reuse
from actors.devices.topology.merge import Merging
from actors.devices.topology.policy import BEST_EFFORT, NONE, POD, decide
from actors.devices.topology.types import NOWHERE_GOOD, Hint, NumaInfo, ProviderHints
from protocols.messages.devices import AdmitPod, ContainerRequest, PodAllocation


class Rules(NamedTuple):
    """The topology policy of this node."""

    numa: NumaInfo
    policy: str = NONE
    scope: str = "container"
    closest: bool = False


class Placer:
    """`cpus` and `memory` are None while their policy is none."""

    def __init__(self, rules: Rules, cpus: CpuPool | None, memory: MemoryPool | None) -> None:
        self.rules = rules
        self.cpus = cpus
        self.memory = memory

    @property
    def aligns(self) -> bool:
        return self.rules.policy != NONE

    @property
    def pins(self) -> bool:
        """Pods may have CPUs or memory of their own: what is left changes with them."""
        return self.cpus is not None or self.memory is not None

    @property
    def strict(self) -> bool:
        """What was hinted must be kept, or the pod is refused."""
        return self.rules.policy not in (NONE, BEST_EFFORT)

    @property
    def by_pod(self) -> bool:
        return self.rules.scope == POD

    @property
    def nodes(self) -> Sequence[int]:
        return self.rules.numa.nodes

    # hints

    def decide(self, providers: Sequence[ProviderHints]) -> Hint:
        """Raises TopologyAffinity."""
        if not self.aligns:
            return NOWHERE_GOOD
        verdict = decide(self.rules.policy, providers, Merging(self.rules.numa, self.rules.closest))
        if not verdict.admit:
            raise TopologyAffinity
        return verdict.hint

    def container_hints(self, pod: AdmitPod, container: ContainerRequest, passing: Passing) -> list[ProviderHints]:
        """Of CPUs, then of memory."""
        need, request = whole_cpus(pod, container), bound_memory(pod, container)
        held = self.placed(pod.uid, container.name)
        cpus, memory = self._cpu_hints(need, passing), self._memory_hints(request, passing.memory)
        if self.cpus is not None and held.cpus:
            cpus = {"cpu": self.cpus.held_hints(need, held.cpus)}
        if self.memory is not None and held.memory:
            memory = {kind: self.memory.held_hints(request, held.memory) for kind in request}
        return [cpus, memory]

    def pod_hints(self, pod: AdmitPod) -> list[ProviderHints]:
        """Of the pod at its peak, nothing reused."""
        kinds = sorted({kind for container in pod.containers for kind in bound_memory(pod, container)})
        ordered = in_order(pod)
        memory = {kind: pod_need((c.kind, bound_memory(pod, c).get(kind, 0)) for c in ordered) for kind in kinds}
        cpus = pod_need((c.kind, whole_cpus(pod, c)) for c in ordered)
        return [self._cpu_hints(cpus, Passing()), self._memory_hints(memory, Reuse())]

    def _cpu_hints(self, need: int, passing: Passing) -> ProviderHints:
        return {"cpu": self.cpus.hints(need, passing.cpus)} if self.cpus is not None and need else None

    def _memory_hints(self, request: Mapping[str, int], reuse: Reuse) -> ProviderHints:
        if self.memory is None or not request:
            return None
        hints = self.memory.hints(request, reuse)
        return {kind: list(hints) for kind in request}

    # holdings

    def place(self, pod: AdmitPod, container: ContainerRequest, hint: Hint, passing: Passing) -> None:
        """Reserve it; `release` gives it back. What it has already it keeps. Raises CannotPlace or SmtAlignment."""
        need, request = whole_cpus(pod, container), bound_memory(pod, container)
        held = self.placed(pod.uid, container.name)
        if self.cpus is not None and need and len(held.cpus) != need:
            self.cpus.take(pod.uid, container.name, need, hint, passing.cpus)
        if self.memory is not None and request and not held.memory:
            self.memory.take(pod.uid, container.name, request, hint, passing.memory)
        passing.took(container, self.placed(pod.uid, container.name))

    def keep(self, pod: AdmitPod, container: ContainerRequest, passing: Passing) -> None:
        """As `place`, for a container that runs: on the CPUs and nodes it was started with, if they are its to have."""
        cpus, hint = remembered(container)
        if self.cpus is not None and len(cpus) == whole_cpus(pod, container):
            self.cpus.restore(pod.uid, container.name, cpus)
        if hint.mask is not None and hint.mask & ~self.rules.numa.everything:
            hint = NOWHERE_GOOD
        self.place(pod, container, hint, passing)

    def asks(self, pod: AdmitPod, container: ContainerRequest) -> tuple[bool, bool]:
        """Whether it is to have CPUs, and memory, of its own."""
        cpus = self.cpus is not None and whole_cpus(pod, container) > 0
        return cpus, self.memory is not None and bool(bound_memory(pod, container))

    def placed(self, uid: str, container: str) -> Placed:
        cpus = self.cpus.held.get(uid, {}).get(container, NOTHING) if self.cpus is not None else NOTHING
        memory = self.memory.held.get(uid, {}).get(container, ()) if self.memory is not None else ()
        return Placed(cpus, memory)

    def holds(self, uid: str) -> bool:
        """Something of the pod's was taken over from an earlier life, or is reserved."""
        pools = (self.cpus, self.memory)
        return any(uid in pool.held for pool in pools if pool is not None)

    def release(self, uid: str) -> None:
        for pool in (self.cpus, self.memory):
            if pool is not None:
                pool.release(uid)

    def strangers(self, active: set[str]) -> list[str]:
        """Pods taken over from state files that are none of `active`."""
        return sorted({uid for pool in (self.cpus, self.memory) if pool is not None for uid in pool.held} - active)

    def adopt(self, pod: PodAllocation) -> list[str]:
        """An admitted pod of an earlier life. Answers what of it contradicts others, to be told."""
        cpus = {c.name: frozenset(c.cpus) for c in pod.containers if c.cpus}
        memory = {c.name: c.memory for c in pod.containers if c.memory}
        wrong = []
        if self.cpus is not None and cpus and not self.cpus.adopt(pod.uid, cpus):
            wrong.append("CPUs that another pod has too")
        if self.memory is not None and memory and not self.memory.adopt(pod.uid, memory):
            wrong.append("more memory than its NUMA nodes have left")
        return [f"pod {pod.namespace}/{pod.name} holds {what}; it keeps running" for what in wrong]
