"""What a container asks of the machine beside devices, and what a pod's containers leave to one another."""

from typing import NamedTuple

from actors.devices.cpu.types import NOTHING, Cpus
from actors.devices.memory.reuse import Reuse
from actors.devices.memory.types import Blocks
from actors.devices.topology.types import Hint, mask_of
from protocols.cpulist import MOST
from protocols.messages.devices import AdmitPod, ContainerRequest

INIT, APP = "init", "app"
CPUS, NODES = "cpu", "numa"
"""Beside devices by resource, in what a running container tells of itself: its CPUs, the nodes of its memory."""


class Placed(NamedTuple):
    """What one container has for itself."""

    cpus: Cpus = NOTHING
    memory: Blocks = ()


class Passing:
    """CPUs and memory of a pod's init containers, for the containers after them."""

    def __init__(self) -> None:
        self.cpus: Cpus = NOTHING
        self.memory = Reuse()

    def took(self, container: ContainerRequest, placed: Placed) -> None:
        """A sidecar and an app container keep what they take."""
        self.cpus = self.cpus | placed.cpus if container.kind == INIT else self.cpus - placed.cpus
        self.memory.took(container.name, container.kind, placed.memory)


def remembered(container: ContainerRequest) -> tuple[Cpus, Hint]:
    """CPUs and place of the memory that a running container was started with; garbage is nothing."""
    cpus, nodes = (container.held.get(name, ()) for name in (CPUS, NODES))
    if not all(text.isascii() and text.isdigit() and int(text) < MOST for text in (*cpus, *nodes)):
        return NOTHING, Hint(None, False)
    return frozenset(map(int, cpus)), Hint(mask_of(map(int, nodes)) or None, False)


def in_order(pod: AdmitPod) -> list[ContainerRequest]:
    """Init containers and sidecars first, then app containers; both in spec order."""
    starters = [container for container in pod.containers if container.kind != APP]
    return starters + [container for container in pod.containers if container.kind == APP]


def whole_cpus(pod: AdmitPod, container: ContainerRequest) -> int:
    """Exclusive CPUs it is to have: whole ones, of a Guaranteed pod."""
    return container.cpu // 1000 if pod.guaranteed and container.cpu % 1000 == 0 else 0


def bound_memory(pod: AdmitPod, container: ContainerRequest) -> dict[str, int]:
    """Bytes by type that are to come from few nodes."""
    return {kind: size for kind, size in container.memory.items() if size > 0} if pod.guaranteed else {}
