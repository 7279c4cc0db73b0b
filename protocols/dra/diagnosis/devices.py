"""The first rule that keeps one device from one request, and the nodes that reach a device."""

from collections.abc import Iterable, Iterator

from protocols.dra.allocator.attempt import Counters
from protocols.dra.allocator.candidates import consumption, is_in_use, shortages
from protocols.dra.allocator.claims import SubRequest
from protocols.dra.allocator.plan import REMEMBERED
from protocols.dra.allocator.types import AllocationFault, DeviceInfo, Node, Pool, SelectorFault, is_reachable
from protocols.dra.diagnosis.types import CAPACITY, COUNTERS, GATE, IN_USE, NODE, POOL, SELECTOR, TAINT, Case, Rejection
from protocols.dra.types import Reach
from protocols.kube.taints import taint_text, untolerated
from protocols.process.texts import cut, listed

MAX_EXPRESSION = 160
MAX_KEYS = 12
NO_NODE = Rejection(NODE, "no node that fits the pod reaches it")
BINDING = Rejection(GATE, "it has binding conditions, whose feature gate is off")
TOO_SMALL = Rejection(CAPACITY, "it lacks a requested capacity, has less of it, or its driver allows no such amount")
UPDATING = Rejection(POOL, "its pool is being updated: not all slices of the newest generation are there")


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
            names = tuple(name for name, node in self._nodes.items() if is_reachable(reach, node))
            known = self._known[id(reach)] = (reach, names)  # the reach is held, so that its id stays its own
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
        count_by_node = dict.fromkeys(self._names, common) if common else {}
        for reach, count in by_reach.values():
            for name in self.nodes(reach):
                count_by_node[name] = count_by_node.get(name, 0) + count
        return count_by_node


class DeviceJudge:
    """Judges devices for a subrequest."""

    def __init__(self, case: Case, subrequest: SubRequest, reaching: Reaching) -> None:
        self._case, self._subrequest, self._reaching = case, subrequest, reaching
        kind = case.classes[subrequest.class_name]
        self._selectors = [
            *((f"#{at} of class {kind.name}", text) for at, text in enumerate(kind.selectors)),
            *((f"#{at} of the request", text) for at, text in enumerate(subrequest.selectors)),
        ]
        self._counters = Counters(case.used)

    def rejection(self, pool: Pool, device: DeviceInfo) -> Rejection | None:
        """Return the first rule that rejects the device on every node, or None."""
        return next(filter(None, self._rejections(pool, device)), None)

    def _rejections(self, pool: Pool, device: DeviceInfo) -> Iterator[Rejection | None]:
        yield self._selector(device)
        yield self._pool(pool)
        yield BINDING if device.has_binding_conditions and not self._case.gates.binding else None
        yield self._taint(device)
        if not self._subrequest.admin:
            yield Rejection(IN_USE, "in use") if is_in_use(device, self._case.used) else None
        yield self._capacity(device)
        if not self._subrequest.admin and device.id not in self._case.used:
            yield self._counter(pool, device)
        yield self._node(device)

    def _selector(self, device: DeviceInfo) -> Rejection | None:
        for place, expression in self._selectors:
            known = device.matched.get(expression)
            try:
                fits = self._case.engine.matches(expression, device.id.driver, device.spec) if known is None else known
            except SelectorFault as error:
                return Rejection(SELECTOR, f"selector {place} fails: {error}{_known_keys(str(error), device)}")
            if known is None and len(device.matched) < REMEMBERED:
                device.matched[expression] = fits
            if not fits:
                return Rejection(SELECTOR, f"selector {place} is false: {_shortened(expression)}")
        return None

    def _pool(self, pool: Pool) -> Rejection | None:
        if pool.fault:
            return Rejection(POOL, f"its pool is invalid: {pool.fault}")
        return None if pool.complete else UPDATING

    def _taint(self, device: DeviceInfo) -> Rejection | None:
        taint = untolerated(device.spec.taints, self._subrequest.tolerations) if self._case.gates.taints else None
        return Rejection(TAINT, f"untolerated taint {taint_text(taint)}") if taint is not None else None

    def _capacity(self, device: DeviceInfo) -> Rejection | None:
        """Judge the amounts that the request consumes of the device, or that it must have."""
        try:
            share = consumption(self._subrequest, device)
        except AllocationFault as fault:
            return Rejection(CAPACITY, str(fault))
        if share is None:
            return TOO_SMALL
        short = shortages(self._subrequest, device, self._case.used, share)
        return Rejection(CAPACITY, f"other shares leave too little of {', '.join(sorted(short))}") if short else None

    def _counter(self, pool: Pool, device: DeviceInfo) -> Rejection | None:
        if self._counters.take(pool, device):
            self._counters.give(pool, device)
            return None
        sets = sorted({name for name, _ in device.consumes})
        return Rejection(COUNTERS, f"other devices in use leave too little of counter set {', '.join(sets)}")

    def _node(self, device: DeviceInfo) -> Rejection | None:
        if self._reaching.nodes(device.reach):
            return None
        if not device.reach.node:
            return NO_NODE
        why = self._case.excluded.get(device.reach.node)
        return Rejection(NODE, f"its node does not fit the pod: {why}" if why else "its node does not exist")


def _known_keys(error: str, device: DeviceInfo) -> str:
    """Return what a device has where an expression asks for a key that it has not."""
    if "no such key" not in error:
        return ""
    maps = {"attributes": device.spec.attributes, "capacity": device.spec.capacity}
    has = [f"{name} {listed(sorted(keys), MAX_KEYS)}" for name, keys in maps.items() if keys]
    return f"; the device has {' and '.join(has) or 'neither attributes nor capacity'}"


def _shortened(expression: str) -> str:
    return cut(" ".join(expression.split()), MAX_EXPRESSION)
