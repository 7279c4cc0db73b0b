"""Exclusive CPUs of containers: the CPU manager's static policy. Pure; one writer.

Invariant after every call: a CPU belongs to at most one pod, including reservations, and no reserved CPU is allocated.
"""

from collections.abc import Iterable, Mapping

from actors.devices.cpu.assignment import take_distributed, take_packed
from actors.devices.cpu.topology import NOTHING, CpuOptions, CpuRequest, Cpus, CpuTopology, cpu_hints, sockets_of
from actors.devices.model.errors import SmtAlignment
from actors.devices.topology.hints import Hint, nodes_of

Holdings = Mapping[str, Mapping[str, Cpus]]
"""CPUs by pod uid and container."""


class CpuPool:
    """The static policy. `topology` may be replaced when CPUs go offline or come back."""

    def __init__(self, topology: CpuTopology, reserved: Cpus, options: CpuOptions) -> None:
        self.topology = topology
        self.reserved = reserved
        self._options = options
        self.held: dict[str, dict[str, Cpus]] = {}
        self._group = topology.threads_per_core if options.full_cores else 1

    # what there is

    @property
    def whole_cores(self) -> bool:
        """True under full-pcpus-only: containers get whole cores, or are rejected."""
        return self._options.full_cores

    @property
    def exclusive(self) -> Cpus:
        return frozenset(cpu for held in self.held.values() for cpus in held.values() for cpu in cpus)

    @property
    def shared(self) -> Cpus:
        """CPUs of containers without exclusive ones; excludes the reserved CPUs under strict-cpu-reservation."""
        left = self.topology.cpus - self.exclusive
        return left - self.reserved if self._options.strict else left

    @property
    def allocatable(self) -> Cpus:
        return self.topology.cpus - self.reserved

    @property
    def free(self) -> Cpus:
        return self.allocatable - self.exclusive

    # one container

    def hints(self, need: int, reusable: Cpus) -> list[Hint]:
        return cpu_hints(self.topology, CpuRequest(need, self.free, reusable), self._options)

    def held_hints(self, need: int, held: Cpus) -> list[Hint]:
        """Return hints for a container that has its CPUs already."""
        return cpu_hints(self.topology, CpuRequest(need, held), self._options) if len(held) == need else []

    def take(self, uid: str, container: str, need: int, hint: Hint, reusable: Cpus = NOTHING) -> Cpus:
        """Allocate CPUs to a container, aligned ones first.

        Raises NotEnoughCpus or SmtAlignment without any change.
        """
        available = self.free | (reusable & self.topology.cpus)
        self._check_cores(need, available)
        aligned = NOTHING if hint.mask is None else available & self._inside(hint.mask)
        taken = self._choose(aligned, min(need, len(aligned)))
        taken |= self._choose(available - taken, need - len(taken))
        self.held.setdefault(uid, {})[container] = taken
        return taken

    def _inside(self, mask: int) -> Cpus:
        if not self._options.by_socket:
            return self.topology.in_nodes(nodes_of(mask))
        sockets = sockets_of(self.topology, mask)
        return frozenset(cpu for cpu, place in self.topology.places.items() if place.socket in sockets)

    def _choose(self, available: Cpus, need: int) -> Cpus:
        if need == 0:
            return NOTHING
        if self._options.spread_numa:
            return take_distributed(self.topology, available, need, self._group)
        return take_packed(self.topology, available, need, self._options.by_cache, self._options.spread_cores)

    def _check_cores(self, need: int, available: Cpus) -> None:
        if not self._options.full_cores:
            return
        if need % self._group:
            raise SmtAlignment(f"SMT Alignment Error: requested {need} cpus not multiple cpus per core = {self._group}")
        whole = len(available - self.topology.siblings(self.reserved))
        if need > whole:
            raise SmtAlignment(
                f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {whole}, "
                f"requested CPUs = {need}, CPUs per core = {self._group}"
            )

    # pods

    def release(self, uid: str) -> None:
        self.held.pop(uid, None)

    def adopt(self, uid: str, containers: Mapping[str, Cpus]) -> bool:
        """Restore an allocation from before a restart, even of CPUs that are reserved now.

        Return False if another pod has one of the CPUs. An offline CPU stays allocated: it comes back as the pod's.
        """
        if frozenset(cpu for cpus in containers.values() for cpu in cpus) & self.exclusive:
            return False
        self.held[uid] = dict(containers)
        return True

    def restore(self, uid: str, container: str, cpus: Cpus) -> None:
        """Restore the CPUs that a running container reports, unless they are reserved or another pod's."""
        others = frozenset(cpu for other, held in self.held.items() if other != uid for c in held.values() for cpu in c)
        if cpus and not self.placed(uid, container) and cpus <= self.allocatable - others:
            self.held.setdefault(uid, {})[container] = cpus

    def placed(self, uid: str, container: str) -> Cpus:
        return self.held.get(uid, {}).get(container, NOTHING)


def reserve_cpus(topology: CpuTopology, named: Cpus, millis: int) -> Cpus:
    """Return the named CPUs, or as many as the reserved amount needs, taken as for a container."""
    return named or take_packed(topology, topology.cpus, -(-millis // 1000))


def pod_need(needs: Iterable[tuple[str, int]]) -> int:
    """Return the peak need of a pod from (kind, amount) of its containers in spec order."""
    starting = sidecars = apps = 0
    for kind, amount in needs:
        if kind == "init":
            starting = max(starting, sidecars + amount)
        elif kind == "sidecar":
            sidecars += amount
        else:
            apps += amount
    return max(starting, sidecars + apps)
