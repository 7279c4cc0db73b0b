"""Which nodes reach which devices, decided once for all devices of a slice."""

from collections.abc import Iterable

from protocols.dra.allocator import DeviceInfo, Node
from protocols.dra.allocator.types import is_reachable
from protocols.dra.types import Reach


class Reaching:
    """Bounded by slices times nodes: devices of a slice share the object that says where they are."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._names = tuple(self._nodes)
        self._known: dict[int, tuple[Reach, tuple[str, ...]]] = {}

    def nodes(self, reach: Reach) -> tuple[str, ...]:
        """Return the nodes that reach a device."""
        if reach.everywhere:
            return self._names
        if reach.node:
            return (reach.node,) if reach.node in self._nodes else ()
        known = self._known.get(id(reach))
        if known is None:
            found = tuple(name for name, node in self._nodes.items() if is_reachable(reach, node))
            known = self._known[id(reach)] = (reach, found)  # the reach is held, so that its id stays its own
        return known[1]

    def counts(self, devices: Iterable[DeviceInfo]) -> dict[str, int]:
        """Return how many of the devices each node reaches."""
        by_reach: dict[int, tuple[Reach, int]] = {}
        common = 0
        for device in devices:
            reach = device.reach
            if reach.everywhere:
                common += 1
            else:
                by_reach[id(reach)] = (reach, by_reach.get(id(reach), (reach, 0))[1] + 1)
        found = dict.fromkeys(self._names, common) if common else {}
        for reach, count in by_reach.values():
            for name in self.nodes(reach):
                found[name] = found.get(name, 0) + count
        return found
