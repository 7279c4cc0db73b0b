"""Whole machines as sysfs trees: describe one, write it below any directory, take its CPUs offline and back."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from protocols.node.cpulist import format_list

GIB = 1 << 30


class Described(msgspec.Struct, frozen=True):
    """A regular machine; CPU numbers as on real ones: first threads of all cores first, then the second ones."""

    sockets: int = 1
    nodes_per_socket: int = 1
    cores_per_node: int = 2
    threads: int = 1
    memory: int = 4 * GIB
    """Of each node."""
    huge: dict[int, int] = {}
    """Pages of each node by size in KiB."""
    bare_nodes: int = 0
    """Nodes with memory and no CPUs, after the others."""

    @property
    def nodes(self) -> int:
        return self.sockets * self.nodes_per_socket

    @property
    def cores(self) -> int:
        return self.nodes * self.cores_per_node

    @property
    def cpus(self) -> range:
        return range(self.cores * self.threads)

    def siblings(self, cpu: int) -> list[int]:
        return [cpu % self.cores + thread * self.cores for thread in range(self.threads)]

    def node_of(self, cpu: int) -> int:
        return cpu % self.cores // self.cores_per_node

    def in_node(self, node: int) -> list[int]:
        return [cpu for cpu in self.cpus if self.node_of(cpu) == node]


def write_machine(root: Path, machine: Described) -> Path:
    """`root` itself, to be given as --sysfs-root."""
    for cpu in machine.cpus:
        _write_cpu(root, machine, cpu)
    for node in range(machine.nodes + machine.bare_nodes):
        _write_node(root, machine, node)
    _put(root / "proc/meminfo", f"MemTotal: {machine.memory * (machine.nodes + machine.bare_nodes) // 1024} kB\n")
    set_online(root, machine, machine.cpus)
    return root


def set_online(root: Path, machine: Described, cpus: Iterable[int]) -> None:
    """As the kernel shows it: what is offline has no topology and is in no node's list."""
    online = set(cpus)
    for cpu in machine.cpus:
        place = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        hidden = place.with_name(".topology")
        if cpu in online and hidden.exists():
            hidden.rename(place)
        elif cpu not in online and place.exists():
            place.rename(hidden)
        if cpu in online:
            siblings = online & set(machine.siblings(cpu))
            _put(place / "thread_siblings_list", format_list(siblings))
    for node in range(machine.nodes):
        _put(root / f"sys/devices/system/node/node{node}/cpulist", format_list(online & set(machine.in_node(node))))
    _put(root / "sys/devices/system/cpu/online", format_list(online))


def _write_cpu(root: Path, machine: Described, cpu: int) -> None:
    place = root / f"sys/devices/system/cpu/cpu{cpu}"
    core_in_socket = cpu % machine.cores % (machine.cores // machine.sockets)
    _put(place / "topology/core_id", str(core_in_socket))
    _put(place / "topology/physical_package_id", str(machine.node_of(cpu) // machine.nodes_per_socket))
    _put(place / "topology/thread_siblings_list", format_list(machine.siblings(cpu)))
    _put(place / "cache/index3/level", "3")
    _put(place / "cache/index3/shared_cpu_list", format_list(machine.in_node(machine.node_of(cpu))))


def _write_node(root: Path, machine: Described, node: int) -> None:
    place, count = root / f"sys/devices/system/node/node{node}", machine.nodes + machine.bare_nodes
    _put(place / "cpulist", "")
    _put(place / "meminfo", f"Node {node} MemTotal: {machine.memory // 1024} kB\n")
    _put(place / "distance", " ".join("10" if other == node else "20" for other in range(count)))
    for size, pages in machine.huge.items():
        _put(place / f"hugepages/hugepages-{size}kB/nr_hugepages", str(pages))


def _put(path: Path, text: str) -> None:
    """Replaced at once: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text + "\n" if not text.endswith("\n") else text)
    fresh.rename(path)
