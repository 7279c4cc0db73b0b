"""kubelet's `memory_manager_state`. Pure.

The checksum is that of one kubelet version; another version's may differ because of a new field. So a mismatch is
reported, and the content is used.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from actors.devices.memory.nodes import Blocks, Holdings, MemoryTable, NodeMemory, Nodes
from actors.devices.model.errors import StateFileCorrupt
from actors.devices.model.go_checksum import GoField, checksum_of, mapping, numbered, sequence, struct
from protocols.messages.devices import AllocatedMemory
from protocols.process.files import UNREADABLE

NAME = "memory_manager_state"


class Block(msgspec.Struct, frozen=True, rename="camel"):
    """Bytes of one type of memory on one or several NUMA nodes."""

    numa_affinity: tuple[int, ...]
    type: str
    size: int


class TableState(msgspec.Struct, frozen=True, rename="camel"):
    """One type of memory of a node, in bytes."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


class NodeState(msgspec.Struct, frozen=True, rename="camel"):
    """A NUMA node; `cells` are the nodes of its group."""

    number_of_assignments: int
    memory_map: dict[str, TableState]
    cells: tuple[int, ...]


class MemoryState(msgspec.Struct, frozen=True, rename="camel"):
    """The content of the file: nodes by number, blocks by pod uid and container name."""

    policy_name: str
    checksum: int
    machine_state: dict[int, NodeState] = {}
    entries: dict[str, dict[str, tuple[Block, ...]]] = {}


class Read(NamedTuple):
    """The content of a file as it was read."""

    policy: str
    holdings: Holdings
    sound: bool
    """True if the checksum is the one computed here."""


def encode(policy: str, nodes: Nodes, holdings: Holdings) -> bytes:
    """Return the file, in kubelet's order of keys."""
    state: dict[str, Any] = {
        "policyName": policy,
        "machineState": {str(node): _node(memory) for node, memory in sorted(nodes.items())},
        "entries": {
            uid: {name: [_block(block) for block in blocks] for name, blocks in sorted(held.items())}
            for uid, held in sorted(holdings.items())
        },
        "checksum": checksum(policy, nodes, holdings),
    }
    return msgspec.json.encode(state)


def decode(raw: bytes) -> Read:
    """Raises StateFileCorrupt."""
    try:
        state = msgspec.json.decode(raw, type=MemoryState)
    except UNREADABLE as error:
        raise StateFileCorrupt(str(error)) from None
    holdings = {uid: {name: _blocks(blocks) for name, blocks in held.items()} for uid, held in state.entries.items()}
    nodes = {node: _read_node(memory) for node, memory in state.machine_state.items()}
    return Read(state.policy_name, holdings, state.checksum == checksum(state.policy_name, nodes, holdings))


def checksum(policy: str, nodes: Nodes, holdings: Holdings) -> int:
    """Return kubelet's checksum of the state, over Go's text form of it."""
    machine = numbered({node: f"<*>{_spew_node(memory)}" for node, memory in nodes.items()})
    entries = {
        uid: {name: sequence(map(_spew_block, blocks)) for name, blocks in held.items()}
        for uid, held in holdings.items()
    }
    fields = (
        GoField("PolicyName", "string", policy),
        GoField("MachineState", "state.NUMANodeMap", machine),
        GoField(
            "Entries",
            "state.ContainerMemoryAssignments",
            mapping({uid: mapping(held) for uid, held in entries.items()}),
        ),
        GoField("Checksum", "checksum.Checksum", "0"),
    )
    return checksum_of(f"(*state.MemoryManagerCheckpoint){struct(fields)}")


def _node(memory: NodeMemory) -> Mapping[str, Any]:
    return {
        "numberOfAssignments": memory.assignments,
        "memoryMap": {kind: _table(table) for kind, table in sorted(memory.tables.items())},
        "cells": memory.group,
    }


def _read_node(state: NodeState) -> NodeMemory:
    tables = {kind: MemoryTable(*msgspec.structs.astuple(table)) for kind, table in state.memory_map.items()}
    return NodeMemory(tables, state.number_of_assignments, state.cells)


def _table(table: MemoryTable) -> Mapping[str, int]:
    return {
        "total": table.total,
        "systemReserved": table.system,
        "allocatable": table.allocatable,
        "reserved": table.reserved,
        "free": table.free,
    }


def _block(block: AllocatedMemory) -> Mapping[str, Any]:
    return {"numaAffinity": block.numa, "type": block.type, "size": block.size}


def _blocks(blocks: tuple[Block, ...]) -> Blocks:
    return tuple(AllocatedMemory(block.type, block.size, block.numa_affinity) for block in blocks)


def _spew_node(memory: NodeMemory) -> str:
    tables = {kind: f"<*>{_spew_table(table)}" for kind, table in memory.tables.items()}
    return struct(
        (
            GoField("NumberOfAssignments", "int", str(memory.assignments)),
            GoField("MemoryMap", "map[v1.ResourceName]*state.MemoryTable", mapping(tables)),
            GoField("Cells", "[]int", sequence(memory.group)),
        )
    )


def _spew_table(table: MemoryTable) -> str:
    names = ("TotalMemSize", "SystemReserved", "Allocatable", "Reserved", "Free")
    values = (table.total, table.system, table.allocatable, table.reserved, table.free)
    return struct(GoField(name, "uint64", str(value)) for name, value in zip(names, values, strict=True))


def _spew_block(block: AllocatedMemory) -> str:
    return struct(
        (
            GoField("NUMAAffinity", "[]int", sequence(block.numa)),
            GoField("Type", "v1.ResourceName", block.type),
            GoField("Size", "uint64", str(block.size)),
        )
    )
