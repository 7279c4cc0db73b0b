"""Upstream's NodePorts: ports of a node that its pods occupy. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from protocols.kinds import views

EVERY_ADDRESS = "0.0.0.0"
NO_PORTS = "node(s) didn't have free ports for the requested pod ports"


class HostPort(NamedTuple):
    """A port of the host that a container occupies; EVERY_ADDRESS conflicts with every other address."""

    protocol: str
    port: int
    address: str


def pod_ports(spec: views.PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars."""
    sidecars = (
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    )
    ports = (
        port for container in (*(spec.get("containers") or ()), *sidecars) for port in container.get("ports") or ()
    )
    return tuple(
        HostPort(str(port.get("protocol") or "TCP"), int(port["hostPort"]), str(port.get("hostIP") or EVERY_ADDRESS))
        for port in ports
        if port.get("hostPort")
    )


def has_conflict(held: Iterable[tuple[str, int, str]], wanted: Iterable[HostPort]) -> bool:
    """Return True if a pod that wants these ports cannot be on a node with one that holds those."""
    used = PortsInUse()
    used.add(HostPort(*port) for port in held)
    return used.has_conflict(wanted)


class PortsInUse:
    """Number of pods on each address of each port; 0.0.0.0 conflicts with every address."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, int], Counter[str]] = {}

    def add(self, ports: Iterable[HostPort]) -> None:
        for port in ports:
            self._pods.setdefault(port[:2], Counter())[port.address] += 1

    def remove(self, ports: Iterable[HostPort]) -> None:
        for port in ports:
            held = self._pods[port[:2]]
            held[port.address] -= 1
            if not held[port.address]:
                del held[port.address]
            if not held:
                del self._pods[port[:2]]

    def has_conflict(self, ports: Iterable[HostPort]) -> bool:
        return any(self._is_taken(port) for port in ports)

    def _is_taken(self, wanted: HostPort) -> bool:
        held: Mapping[str, int] = self._pods.get(wanted[:2], {})
        return bool(held) and (wanted.address == EVERY_ADDRESS or wanted.address in held or EVERY_ADDRESS in held)
