"""What a container asks of the machine beside devices, and what a pod's containers leave to one another."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.devices.cpu.pool import CpuPool, pod_need
from actors.devices.cpu.topology import NOTHING, Cpus
from actors.devices.memory.nodes import Blocks
from actors.devices.memory.pool import MemoryPool, Reuse
from actors.devices.model.errors import TopologyAffinity
from actors.devices.topology.hints import NOWHERE_GOOD, Hint, NumaInfo, ProviderHints, mask_of
from actors.devices.topology.policy import BEST_EFFORT, NONE, POD, Merging, decide
from protocols.cpulist import MOST
from protocols.messages.devices import AdmitPod, ContainerRequest, PodAllocation

INIT, APP = "init", "app"
CPUS, NODES = "cpu", "numa"
"""Beside devices by resource, in what a running container tells of itself: its CPUs, the nodes of its memory."""


class Placed(NamedTuple):
    """What one container has for itself."""

    cpus: Cpus = NOTHING
    memory: Blocks = ()


class Passing:
    """CPUs and memory of a pod's init containers, for the containers after them."""

    def __init__(self) -> None:
        self.cpus: Cpus = NOTHING
        self.memory = Reuse()

    def took(self, container: ContainerRequest, placed: Placed) -> None:
        """A sidecar and an app container keep what they take."""
        self.cpus = self.cpus | placed.cpus if container.kind == INIT else self.cpus - placed.cpus
        self.memory.took(container.name, container.kind, placed.memory)


def remembered(container: ContainerRequest) -> tuple[Cpus, Hint]:
    """CPUs and place of the memory that a running container was started with; garbage is nothing."""
    cpus, nodes = (container.held.get(name, ()) for name in (CPUS, NODES))
    if not all(text.isascii() and text.isdigit() and int(text) < MOST for text in (*cpus, *nodes)):
        return NOTHING, Hint(None, False)
    return frozenset(map(int, cpus)), Hint(mask_of(map(int, nodes)) or None, False)


def in_order(pod: AdmitPod) -> list[ContainerRequest]:
    """Init containers and sidecars first, then app containers; both in spec order."""
    starters = [container for container in pod.containers if container.kind != APP]
    return starters + [container for container in pod.containers if container.kind == APP]


def whole_cpus(pod: AdmitPod, container: ContainerRequest) -> int:
    """Exclusive CPUs it is to have: whole ones, of a Guaranteed pod."""
    return container.cpu // 1000 if pod.guaranteed and container.cpu % 1000 == 0 else 0


def bound_memory(pod: AdmitPod, container: ContainerRequest) -> dict[str, int]:
    """Bytes by type that are to come from few nodes."""
    return {kind: size for kind, size in container.memory.items() if size > 0} if pod.guaranteed else {}


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
