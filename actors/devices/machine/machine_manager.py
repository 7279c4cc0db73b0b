"""CPUs and memory of the machine: detected hardware, allocations to pods, and the state files for a kubelet.

Invariant: allocations follow from the ledger. State files only add pods that the ledger does not know, until podworker
lists the pods of the node.

kubelet's files `cpu_manager_state` and `memory_manager_state` are copies of the ledger, written before an admission is
answered. They are read once at start: for allocations that a kubelet made, and for the policy they were made under.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from actors.devices.cpu import state_file as cpu_file
from actors.devices.cpu.pool import CpuPool, reserve_cpus
from actors.devices.cpu.pool import Holdings as CpuHoldings
from actors.devices.cpu.topology import CpuTopology, read_options
from actors.devices.machine.placer import Placer, Rules
from actors.devices.machine.sysfs import Hardware, online_cpus, read_hardware
from actors.devices.memory import state_file as memory_file
from actors.devices.memory.nodes import Holdings as MemoryHoldings
from actors.devices.memory.nodes import empty_node
from actors.devices.memory.pool import MemoryPool
from actors.devices.model.errors import MachineUnreadable, PlacementFailed, PolicyChanged, StateFileCorrupt
from protocols.messages.devices import Machine, Placement, PodAllocation
from protocols.node.alignment import LEAST_ALLOWABLE, Alignment
from protocols.node.cpulist import format_list
from protocols.process.files import make_directory, read_state, set_aside, sweep_once, write_atomic


class LoadedState(msgspec.Struct):
    """Content of the files; empty without a file."""

    cpu_policy: str = ""
    memory_policy: str = ""
    cpus: CpuHoldings = msgspec.field(default_factory=dict)
    memory: MemoryHoldings = msgspec.field(default_factory=dict)
    warnings: list[str] = msgspec.field(default_factory=list)
    """Lines to log."""


class StateFiles:
    """Its methods block; `save` is called in a thread once the event loop runs."""

    def __init__(self, directory: Path) -> None:
        self.cpu = directory / cpu_file.NAME
        self.memory = directory / memory_file.NAME
        self._written: dict[Path, bytes] = {}

    def load(self) -> LoadedState:
        make_directory(self.cpu.parent, 0o700)
        sweep_once(self.cpu.parent)
        loaded = LoadedState()
        if raw := self._read(self.cpu, loaded):
            try:
                loaded.cpu_policy, loaded.cpus = cpu_file.decode(raw)
            except StateFileCorrupt as error:
                loaded.warnings.append(self._set_aside(self.cpu, error))
        if raw := self._read(self.memory, loaded):
            try:
                loaded.memory_policy, loaded.memory, sound = memory_file.decode(raw)
                if not sound:
                    loaded.warnings.append(
                        f"{self.memory}: its checksum is of another version or wrong; its content is used"
                    )
            except StateFileCorrupt as error:
                loaded.warnings.append(self._set_aside(self.memory, error))
        return loaded

    def save(self, cpu: bytes, memory: bytes) -> None:
        """Write the files that differ. Raises OSError."""
        for path, data in ((self.cpu, cpu), (self.memory, memory)):
            if self._written.get(path) != data:
                self._written.pop(path, None)  # a failed write leaves unknown content
                write_atomic(path, data, mode=0o600)
                self._written[path] = data

    def _read(self, path: Path, found: LoadedState) -> bytes:
        """Return the content, or b"" without a readable file."""
        try:
            raw = read_state(path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            found.warnings.append(self._set_aside(path, StateFileCorrupt(str(error.strerror).lower())))
            return b""
        self._written[path] = raw
        return raw or b"{}"

    def _set_aside(self, path: Path, error: StateFileCorrupt) -> str:
        self._written.pop(path, None)
        try:
            aside = set_aside(path)
        except OSError as fault:
            return f"{path} is corrupt: {error}; it cannot be moved aside: {os.strerror(fault.errno or 0).lower()}"
        return f"{path} is corrupt: {error}; kept as {aside}, rebuilt from what the pods hold"


class MachineManagerOptions(msgspec.Struct, frozen=True):
    """Settings and files of CPU, memory and topology manager."""

    settings: Alignment
    directory: Path
    """kubelet's directory, with the state files."""
    log: logging.Logger
    ledger_ns: int = 0
    """Unix time at which the ledger began; 0 = unknown."""


class MachineManager:
    """Raises MachineUnreadable or PolicyChanged when constructed: then nothing may be allocated."""

    def __init__(self, options: MachineManagerOptions, pods: Iterable[PodAllocation], foreign: bool = False) -> None:
        self._options = options
        self._root = Path(options.settings.sysfsRoot)
        self.hardware = read_hardware(self._root)
        self.placer = make_placer(options.settings, self.hardware)
        self._logged_error = ""
        self._empty = cpu_file.encode("none", frozenset(), {}), memory_file.encode("None", {}, {})
        self._files = StateFiles(options.directory)
        loaded = self._files.load()
        known = list(pods)
        self._check_policies(loaded, known)
        self._log_errors(loaded.warnings)
        self._adopt(loaded, known, foreign)
        self._warn_of_offline_reservations()

    # streams

    def machine(self) -> Machine:
        cpus, memory = self.placer.cpus, self.placer.memory
        return Machine(
            cpus=tuple(sorted(cpus.allocatable)) if cpus is not None else (),
            memory=memory.allocatable if memory is not None else (),
        )

    def placement(self) -> Placement:
        settings, hardware = self._options.settings, self.hardware
        cpus = self.placer.cpus
        return Placement(
            online=format_list(hardware.cpus.cpus),
            memory=hardware.total,
            hugepages=hardware.hugepages,
            reserved=settings.kept,
            shared=format_list(cpus.shared) if cpus is not None else "",
            ledger_ns=self._options.ledger_ns,
        )

    # state files

    def encoded_state(self) -> tuple[bytes, bytes]:
        """Return the content of both state files now."""
        settings, cpus, memory = self._options.settings, self.placer.cpus, self.placer.memory
        empty = self._empty
        return (
            cpu_file.encode(settings.cpuManagerPolicy, cpus.shared, cpus.held) if cpus is not None else empty[0],
            memory_file.encode(settings.memoryManagerPolicy, memory.nodes, memory.held)
            if memory is not None
            else empty[1],
        )

    def save(self, encoded: tuple[bytes, bytes]) -> None:
        """Write the state files. Blocks.

        An error is logged once and the write repeated with the next change: pods depend only on the ledger's
        checkpoint.
        """
        try:
            self._files.save(*encoded)
        except OSError as error:
            where = self._options.directory
            message = f"cannot write the manager state files in {where}: {error.strerror}; a kubelet would miss them"
            if message != self._logged_error:
                self._options.log.error("%s", message)
            self._logged_error = message
        else:
            self._logged_error = ""

    # hotplug

    def refresh(self) -> bool:
        """Return True if the set of online CPUs changed. Otherwise only one small file is read."""
        try:
            if online_cpus(self._root) == self.hardware.cpus.cpus:
                return False
            self.hardware = read_hardware(self._root)
        except MachineUnreadable as error:
            self._options.log.error("cannot read online CPUs, using the last known ones error=%s", error)
            return False
        if self.placer.cpus is not None:
            self.placer.cpus.topology = self.hardware.cpus
        self._options.log.info("online CPUs changed cpus=%s", format_list(self.hardware.cpus.cpus))
        return True

    # start

    def _adopt(self, found: LoadedState, pods: list[PodAllocation], foreign: bool) -> None:
        """Restore allocations.

        The ledger wins, since state files may be one commit ahead of it. After a kubelet ran the node the files win.
        """
        if foreign:
            self._adopt_files(found, known=set())
            pods = [pod for pod in pods if pod.uid not in {*found.cpus, *found.memory}]
        for pod in pods:
            self._log_errors(self.placer.adopt(pod))
        if not foreign:
            self._adopt_files(found, {pod.uid for pod in pods})

    def _adopt_files(self, found: LoadedState, known: set[str]) -> None:
        cpus, memory = self.placer.cpus, self.placer.memory
        for uid, held in found.cpus.items():
            if cpus is not None and uid not in known and not cpus.adopt(uid, held):
                self._log_errors([f"{self._files.cpu} gives pod {uid} CPUs that another has: ignored"])
        for uid, blocks in found.memory.items():
            if memory is not None and uid not in known and not memory.adopt(uid, blocks):
                self._log_errors([f"{self._files.memory} gives pod {uid} memory that is not there: ignored"])

    def _check_policies(self, found: LoadedState, pods: list[PodAllocation]) -> None:
        """Raise PolicyChanged if pods hold something under another policy."""
        settings = self._options.settings
        containers = [container for pod in pods for container in pod.containers]
        holds = any(c.cpus for c in containers) or any(found.cpus.values())
        self._check(("CPU", self._files.cpu), (found.cpu_policy, settings.cpuManagerPolicy), holds)
        holds = any(c.memory for c in containers) or any(found.memory.values())
        self._check(("memory", self._files.memory), (found.memory_policy, settings.memoryManagerPolicy), holds)

    def _check(self, file: tuple[str, Path], policies: tuple[str, str], holds: bool) -> None:
        (what, path), (old, new) = file, policies
        if not old or old == new:
            return
        if holds:
            raise PolicyChanged(
                f'could not restore state from checkpoint: configured policy "{new}" differs from state checkpoint '
                f'policy "{old}", please drain this node and delete the {what} manager checkpoint file "{path}" '
                "before restarting Kubelet"
            )
        self._options.log.info("%s manager policy changed policy=%s previous=%s", what, new, old)

    def _warn_of_offline_reservations(self) -> None:
        absent = self._options.settings.named_cpus - self.hardware.cpus.cpus
        if absent:
            self._options.log.warning("reserved CPUs are not online cpus=%s", format_list(absent))

    def _log_errors(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._options.log.error("%s", line)


def make_placer(settings: Alignment, hardware: Hardware) -> Placer:
    """Build the pools. Raises MachineUnreadable for settings that the machine cannot meet."""
    return Placer(
        _rules(settings, hardware),
        _cpus(settings, hardware.cpus) if settings.pins_cpus else None,
        _memory(settings, hardware) if settings.pins_memory else None,
    )


def _rules(settings: Alignment, hardware: Hardware) -> Rules:
    options = settings.topologyManagerPolicyOptions
    most, node_count = int(options.get("max-allowable-numa-nodes", LEAST_ALLOWABLE)), len(hardware.numa.nodes)
    if (settings.aligns or settings.pins_memory) and node_count > most:
        policies = "memory policy None and topology policy none" if settings.pins_memory else "topology policy none"
        raise MachineUnreadable(
            f"unsupported on machines with more than {most} NUMA Nodes: this one has {node_count}; use {policies}, "
            f"or the option max-allowable-numa-nodes={node_count}"
        )
    closest = options.get("prefer-closest-numa-nodes") == "true"
    return Rules(hardware.numa, settings.topologyManagerPolicy, settings.topologyManagerScope, closest)


def _cpus(settings: Alignment, topology: CpuTopology) -> CpuPool:
    named = settings.named_cpus & topology.cpus
    if settings.named_cpus and not named:
        raise MachineUnreadable(f"--reserved-cpus names no CPU that is online; there are {format_list(topology.cpus)}")
    try:
        reserved = reserve_cpus(topology, named, settings.reserved_millis)
    except PlacementFailed as error:
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
