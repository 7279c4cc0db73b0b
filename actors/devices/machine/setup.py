"""From settings and hardware to pools. Everything that only the machine can tell to be wrong is refused here."""

from actors.devices.cpu.pool import CpuPool, reserve_cpus
from actors.devices.cpu.types import CpuTopology, read_options
from actors.devices.errors import CannotPlace, MachineUnreadable
from actors.devices.machine.placer import Placer, Rules
from actors.devices.machine.sysfs import Hardware
from actors.devices.memory.accounts import empty_node
from actors.devices.memory.pool import MemoryPool
from protocols.alignment import LEAST_ALLOWABLE, Alignment
from protocols.cpulist import format_list


def make_placer(settings: Alignment, hardware: Hardware) -> Placer:
    """Raises MachineUnreadable."""
    return Placer(
        _rules(settings, hardware),
        _cpus(settings, hardware.cpus) if settings.pins_cpus else None,
        _memory(settings, hardware) if settings.pins_memory else None,
    )


def _rules(settings: Alignment, hardware: Hardware) -> Rules:
    options = settings.topologyManagerPolicyOptions
    most, found = int(options.get("max-allowable-numa-nodes", LEAST_ALLOWABLE)), len(hardware.numa.nodes)
    if settings.aligns and found > most:
        raise MachineUnreadable(
            f"unsupported on machines with more than {most} NUMA Nodes: this one has {found}; use topology policy "
            f"none, or the option max-allowable-numa-nodes={found}"
        )
    closest = options.get("prefer-closest-numa-nodes") == "true"
    return Rules(hardware.numa, settings.topologyManagerPolicy, settings.topologyManagerScope, closest)


def _cpus(settings: Alignment, topology: CpuTopology) -> CpuPool:
    named = settings.named_cpus & topology.cpus
    if settings.named_cpus and not named:
        raise MachineUnreadable(f"--reserved-cpus names no CPU that is online; there are {format_list(topology.cpus)}")
    try:
        reserved = reserve_cpus(topology, named, settings.reserved_millis)
    except CannotPlace as error:
        raise MachineUnreadable(f"cannot keep {settings.reserved_millis}m of CPUs for the system: {error}") from None
    options = read_options(settings.cpuManagerPolicyOptions)
    if options.by_socket and len(topology.sockets) > len(topology.nodes):
        raise MachineUnreadable("align-by-socket does not fit a machine with more sockets than NUMA nodes")
    return CpuPool(topology, reserved, options)


def _memory(settings: Alignment, hardware: Hardware) -> MemoryPool:
    reserved = settings.reserved_by_node
    for node, kinds in reserved.items():
        if node not in hardware.memory:
            raise MachineUnreadable(f"--reserved-memory names NUMA node {node}, which this machine does not have")
        for kind, size in kinds.items():
            if size > hardware.memory[node].get(kind, 0):
                raise MachineUnreadable(f"--reserved-memory keeps more {kind} than NUMA node {node} has")
    return MemoryPool(
        {node: empty_node(node, totals, reserved.get(node, {})) for node, totals in sorted(hardware.memory.items())}
    )
