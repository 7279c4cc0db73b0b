"""The vocabulary of memory: what a node has of each type, and the blocks containers hold."""

from collections.abc import Mapping

import msgspec

from protocols.messages.devices import AllocatedMemory

NONE, STATIC = "None", "Static"
POLICIES = (NONE, STATIC)
MEMORY = "memory"
HUGE = "hugepages-"

Blocks = tuple[AllocatedMemory, ...]
Holdings = Mapping[str, Mapping[str, Blocks]]
"""Blocks by pod uid and container."""


class Table(msgspec.Struct, frozen=True):
    """One type of memory on one node, in bytes. free + reserved = allocatable."""

    total: int
    system: int
    """Kept from pods."""
    allocatable: int
    reserved: int = 0
    free: int = 0

    def take(self, size: int) -> "Table":
        return msgspec.structs.replace(self, reserved=self.reserved + size, free=self.free - size)


class NodeMemory(msgspec.Struct, frozen=True):
    tables: dict[str, Table]
    assignments: int = 0
    """Blocks that name this node."""
    group: tuple[int, ...] = ()
    """Nodes it is bound together with by blocks over several nodes, itself included; alone while it is free."""


Nodes = Mapping[int, NodeMemory]
