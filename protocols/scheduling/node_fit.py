"""Upstream's NodeResourcesFit: what pods leave of a node's resources. Pure. Amounts are nano-units."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from protocols.scheduling.host_ports import HostPort, PortsInUse
from protocols.scheduling.requests import Amounts, add, subtract


class Shortage(NamedTuple):
    """A resource of which the node has too little left for a pod."""

    resource: str
    requested: int
    used: int
    """Requests of the pods that the node has."""
    capacity: int
    """Allocatable amount of the node."""


def shortages(
    requests: Mapping[str, int], allocatable: Mapping[str, int], used: Mapping[str, int], backed: Collection[str] = ()
) -> list[Shortage]:
    """Return the resources of which the node has too little, by name.

    `backed` resources need not be on the node if it has none of them at all.
    """
    short = []
    for name, requested in requests.items():
        capacity = allocatable.get(name, 0)
        if requested > capacity - used.get(name, 0) and requested and (capacity or name not in backed):
            short.append(Shortage(name, requested, used.get(name, 0), capacity))
    return sorted(short) if short else short


class NodeUse(msgspec.Struct):
    """Requests and host ports of the pods on one node."""

    used: Amounts = msgspec.field(default_factory=dict)
    ports: PortsInUse = msgspec.field(default_factory=PortsInUse)

    def add(self, requests: Mapping[str, int], ports: Collection[HostPort]) -> None:
        add(self.used, requests)
        self.ports.add(ports)

    def remove(self, requests: Mapping[str, int], ports: Collection[HostPort]) -> None:
        subtract(self.used, requests)
        self.ports.remove(ports)
