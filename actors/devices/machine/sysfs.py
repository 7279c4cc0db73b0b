"""Read CPUs, NUMA nodes, memory and huge pages from sysfs and procfs below any root.

- Offline CPUs have no topology and are missing from their node's list.
- A CPU that cannot go offline has no `online` file.
- Nodes without CPUs exist and count; some machines have no node at all.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from actors.devices.cpu.topology import CpuPlace, Cpus, CpuTopology
from actors.devices.model.errors import MachineUnreadable
from actors.devices.topology.hints import NumaInfo
from protocols.errors import SettingsInvalid
from protocols.node.cpulist import parse_list
from protocols.process.proc import read_text, sizes

KIB = 1024
_NODE, _CPU = re.compile(r"node(\d+)"), re.compile(r"cpu(\d+)")
_HUGE = re.compile(r"hugepages-(\d+)kB")
_UNITS = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


class Hardware(msgspec.Struct, frozen=True):
    """Detected hardware."""

    cpus: CpuTopology
    numa: NumaInfo
    memory: dict[int, dict[str, int]]
    """Bytes by node and type."""
    total: int
    """All bytes of memory; more than the sum of the nodes if the kernel reports no nodes."""

    @property
    def hugepages(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for kinds in self.memory.values():
            for kind, size in kinds.items():
                if kind != "memory":
                    sizes[kind] = sizes.get(kind, 0) + size
        return sizes


def read_hardware(root: Path) -> Hardware:
    """Raises MachineUnreadable."""
    nodes = dict(sorted(_numbered(root / "sys/devices/system/node", _NODE)))
    total = sizes(root / "proc/meminfo").get("MemTotal", 0)
    lists = {node: _list(path / "cpulist") for node, path in nodes.items()} or {0: frozenset()}
    memory = {node: _node_memory(path) for node, path in nodes.items()} or {0: _flat_memory(root, total)}
    topology = _topology(root, online_cpus(root), lists)
    distances = {node: _distances(path, list(nodes)) for node, path in nodes.items()}
    plain = sum(kinds.get("memory", 0) for kinds in memory.values())
    return Hardware(topology, NumaInfo(tuple(memory), distances), memory, total or plain)


def online_cpus(root: Path) -> Cpus:
    """Return the online CPUs from a single file; without it every CPU counts as online.

    Raises:
        MachineUnreadable: There is no CPU.
    """
    base = root / "sys/devices/system/cpu"
    text = read_text(base / "online")
    cpus = _parse(text, base) if text else frozenset(cpu for cpu, _ in _numbered(base, _CPU))
    if not cpus:
        raise MachineUnreadable(f"no CPU is described below {base}; is it a sysfs tree?")
    return cpus


def _topology(root: Path, online: Cpus, lists: Mapping[int, Cpus]) -> CpuTopology:
    base = root / "sys/devices/system/cpu"
    nodes = {cpu: node for node, cpus in lists.items() for cpu in cpus}
    return CpuTopology({cpu: _place(base / f"cpu{cpu}", cpu, nodes.get(cpu, min(lists))) for cpu in sorted(online)})


def _place(path: Path, cpu: int, node: int) -> CpuPlace:
    siblings = _list(path / "topology/thread_siblings_list") | {cpu}
    return CpuPlace(
        core=min(siblings),
        socket=max(0, _number(path / "topology/physical_package_id")),
        node=node,
        cache=min(_last_cache(path), default=-1 - node),
    )


def _last_cache(path: Path) -> Cpus:
    """Return the CPUs that share the last level cache."""
    caches = [entry for entry in _entries(path / "cache") if entry.name.startswith("index")]
    last = max(caches, key=lambda entry: _number(entry / "level"), default=None)
    return _list(last / "shared_cpu_list") if last is not None else frozenset()


def _node_memory(path: Path) -> dict[str, int]:
    return {"memory": sizes(path / "meminfo").get("MemTotal", 0), **_huge(path / "hugepages")}


def _flat_memory(root: Path, total: int) -> dict[str, int]:
    return {"memory": total, **_huge(root / "sys/kernel/mm/hugepages")}


def _huge(path: Path) -> dict[str, int]:
    sizes = {}
    for entry in _entries(path):
        if match := _HUGE.fullmatch(entry.name):
            size = int(match[1]) * KIB
            sizes[f"hugepages-{_binary(size)}"] = max(0, _number(entry / "nr_hugepages")) * size
    return sizes


def _binary(size: int) -> str:
    """Format a page size as the API does."""
    return next((f"{size // unit}{name}" for unit, name in _UNITS if size % unit == 0), str(size))


def _distances(path: Path, nodes: list[int]) -> dict[int, int]:
    return dict(
        zip(nodes, (int(part) for part in read_text(path / "distance").split() if part.isdigit()), strict=False)
    )


def _numbered(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[int, Path]]:
    return ((int(match[1]), entry) for entry in _entries(path) if (match := pattern.fullmatch(entry.name)))


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _list(path: Path) -> Cpus:
    return _parse(read_text(path), path)


def _parse(text: str, path: Path) -> Cpus:
    try:
        return parse_list(text)
    except SettingsInvalid as error:
        raise MachineUnreadable(f"{path}: {error}") from None


def _number(path: Path) -> int:
    """Return -1 without a number."""
    text = read_text(path)
    return int(text) if text.lstrip("-").isdigit() else -1
