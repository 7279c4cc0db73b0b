"""Settings of the CPU, memory and topology managers, with kubelet's names and values."""

import re
from collections.abc import Mapping

import msgspec

from protocols.errors import SettingsInvalid
from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import parse_quantity
from protocols.node.cpulist import is_number, parse_list

CPU_POLICIES = ("none", "static")
CPU_OPTIONS = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
)
CPU_CONFLICTS = (
    ("full-pcpus-only", "distribute-cpus-across-cores"),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
)
MEMORY_POLICIES = ("None", "Static")
TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TOPOLOGY_SCOPES = ("container", "pod")
TOPOLOGY_OPTIONS = ("prefer-closest-numa-nodes", "max-allowable-numa-nodes")
LEAST_ALLOWABLE = 8
RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
"""kubelet's; pid limits the cgroup of all pods there, which is not made here."""
_MEMORY_TYPE = re.compile(r"memory|hugepages-\d+(Ki|Mi|Gi)")


class Alignment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Manager policies and reservations; by default all are off, as upstream's."""

    cpuManagerPolicy: str = "none"
    cpuManagerPolicyOptions: dict[str, str] = {}
    memoryManagerPolicy: str = "None"
    topologyManagerPolicy: str = "none"
    topologyManagerScope: str = "container"
    topologyManagerPolicyOptions: dict[str, str] = {}
    reservedSystemCPUs: str = ""
    """CPU list; empty = as many as kubeReserved and systemReserved ask for."""
    reservedMemory: dict[str, dict[str, str]] = {}
    """Quantities by NUMA node, then type (memory, hugepages-SIZE)."""
    kubeReserved: dict[str, str] = {}
    systemReserved: dict[str, str] = {}
    sysfsRoot: str = "/"
    """Where `sys` and `proc` of the machine are; another tree describes another machine."""

    @property
    def pins_cpus(self) -> bool:
        return self.cpuManagerPolicy == "static"

    @property
    def pins_memory(self) -> bool:
        return self.memoryManagerPolicy == "Static"

    @property
    def aligns(self) -> bool:
        return self.topologyManagerPolicy != "none"

    @property
    def named_cpus(self) -> frozenset[int]:
        return parse_list(self.reservedSystemCPUs)

    @property
    def reserved_millis(self) -> int:
        """Thousandths of CPUs that pods cannot use; a list of CPUs has precedence."""
        if self.reservedSystemCPUs:
            return 1000 * len(self.named_cpus)
        return sum(_millis(kept.get("cpu", "0")) for kept in (self.kubeReserved, self.systemReserved))

    @property
    def reserved_bytes(self) -> int:
        """Bytes of plain memory that pods cannot use."""
        return sum(_bytes(kept.get("memory", "0")) for kept in (self.kubeReserved, self.systemReserved))

    @property
    def kept(self) -> dict[str, int]:
        """Difference of node capacity and allocatable: `cpu` in thousandths, everything else in bytes."""
        reserved = {"cpu": self.reserved_millis, "memory": self.reserved_bytes}
        disk = (kept.get("ephemeral-storage", "0") for kept in (self.kubeReserved, self.systemReserved))
        reserved["ephemeral-storage"] = sum(map(_bytes, disk))
        for kinds in self.reserved_by_node.values():
            for kind, size in kinds.items():
                if kind != "memory":
                    reserved[kind] = reserved.get(kind, 0) + size
        return {name: amount for name, amount in reserved.items() if amount}

    @property
    def reserved_by_node(self) -> dict[int, dict[str, int]]:
        return {
            int(node): {kind: _bytes(size) for kind, size in kinds.items()}
            for node, kinds in self.reservedMemory.items()
        }


def check_alignment(given: Alignment) -> Alignment:
    """Return `given`; raises SettingsInvalid for faults that can be found without the machine."""
    _one_of("cpuManagerPolicy", given.cpuManagerPolicy, CPU_POLICIES)
    _one_of("memoryManagerPolicy", given.memoryManagerPolicy, MEMORY_POLICIES)
    _one_of("topologyManagerPolicy", given.topologyManagerPolicy, TOPOLOGY_POLICIES)
    _one_of("topologyManagerScope", given.topologyManagerScope, TOPOLOGY_SCOPES)
    _check_cpu_options(given)
    _check_topology_options(given.topologyManagerPolicyOptions)
    _check_reserved(given)
    _check_reserved_memory(given)
    if given.pins_cpus and not given.reserved_millis:
        raise SettingsInvalid(
            "cpuManagerPolicy static reserves CPUs for the system: give --reserved-cpus, or cpu in --kube-reserved or "
            "--system-reserved"
        )
    return given


def _check_cpu_options(given: Alignment) -> None:
    options = given.cpuManagerPolicyOptions
    _check_options("cpuManagerPolicyOptions", options, CPU_OPTIONS)
    for name, value in options.items():
        _one_of(f"cpuManagerPolicyOptions {name}", value, ("true", "false"))
    on = {name for name, value in options.items() if value == "true"}
    for one, other in CPU_CONFLICTS:
        if one in on and other in on:
            raise SettingsInvalid(f"static policy options {one} and {other} can not be used at the same time")
    if "align-by-socket" in on and given.topologyManagerPolicy == "single-numa-node":
        raise SettingsInvalid(
            "cpuManagerPolicyOptions align-by-socket and topologyManagerPolicy single-numa-node contradict one another"
        )


def _check_topology_options(options: Mapping[str, str]) -> None:
    _check_options("topologyManagerPolicyOptions", options, TOPOLOGY_OPTIONS)
    _one_of("prefer-closest-numa-nodes", options.get("prefer-closest-numa-nodes", "false"), ("true", "false"))
    most = options.get("max-allowable-numa-nodes", str(LEAST_ALLOWABLE))
    if not is_number(most) or int(most) < LEAST_ALLOWABLE:
        raise SettingsInvalid(f"max-allowable-numa-nodes {most!r} is no number of {LEAST_ALLOWABLE} or more")


def _check_options(field: str, options: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            raise SettingsInvalid(f"{field} has no {name!r}; there are {', '.join(known)}")


def _check_reserved(given: Alignment) -> None:
    parse_list(given.reservedSystemCPUs)
    for field, kept in (("kubeReserved", given.kubeReserved), ("systemReserved", given.systemReserved)):
        for name, amount in kept.items():
            _one_of(field, name, RESERVABLE)
            _amount(field, name, amount)


def _check_reserved_memory(given: Alignment) -> None:
    for node, kinds in given.reservedMemory.items():
        if not is_number(node):
            raise SettingsInvalid(f"reservedMemory names NUMA node {node!r}; nodes are numbers")
        for kind, size in kinds.items():
            if not _MEMORY_TYPE.fullmatch(kind):
                raise SettingsInvalid(f"reservedMemory has no type {kind!r}; there are memory and hugepages-SIZE")
            _amount(f"reservedMemory of node {node}", kind, size)
    plain = sum(kinds.get("memory", 0) for kinds in given.reserved_by_node.values())
    if given.pins_memory and not plain:
        raise SettingsInvalid("memoryManagerPolicy Static reserves memory for the system: give --reserved-memory")
    if given.pins_memory and plain != given.reserved_bytes:
        raise SettingsInvalid(
            f"reservedMemory has {plain} bytes of memory in all, kubeReserved and systemReserved have "
            f"{given.reserved_bytes}: the two must agree"
        )


def _amount(field: str, name: str, text: str) -> None:
    try:
        good = parse_quantity(text).nanos >= 0
    except QuantityInvalid:
        good = False
    if not good:
        raise SettingsInvalid(f"{field} {name}={text} is no amount; write it like 500m or 1Gi")


def _one_of(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SettingsInvalid(f"{field} {value!r} is none of {', '.join(known)}")


def _millis(text: str) -> int:
    return parse_quantity(text).milli()


def _bytes(text: str) -> int:
    return parse_quantity(text).value()
