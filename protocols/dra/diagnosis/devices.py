"""The first rule that keeps one device from one request."""

from collections.abc import Iterator

from protocols.dra.allocator import AllocationFault, Offer, SelectorFault
from protocols.dra.allocator.attempt import Counters
from protocols.dra.allocator.claims import Want
from protocols.dra.allocator.plan import REMEMBERED, consumption, in_use, shortages
from protocols.dra.allocator.types import Pool
from protocols.dra.diagnosis.reaching import Reaching
from protocols.dra.diagnosis.types import CAPACITY, COUNTERS, GATE, IN_USE, NODE, POOL, SELECTOR, TAINT, Case, Rejection
from protocols.kube.taints import taint_text, untolerated
from protocols.process.texts import cut, listed

MAX_EXPRESSION = 160
MAX_KEYS = 12
NO_NODE = Rejection(NODE, "no node that fits the pod reaches it")
BINDING = Rejection(GATE, "it has binding conditions, whose feature gate is off")
TOO_SMALL = Rejection(CAPACITY, "it lacks a requested capacity, has less of it, or its driver allows no such amount")
UPDATING = Rejection(POOL, "its pool is being updated: not all slices of the newest generation are there")


class DeviceJudge:
    """Judges devices for one way to satisfy a request."""

    def __init__(self, case: Case, want: Want, reaching: Reaching) -> None:
        self._case, self._want, self._reaching = case, want, reaching
        kind = case.classes[want.class_name]
        self._selectors = [
            *((f"#{at} of class {kind.name}", text) for at, text in enumerate(kind.selectors)),
            *((f"#{at} of the request", text) for at, text in enumerate(want.selectors)),
        ]
        self._counters = Counters(case.used)

    def rejection(self, pool: Pool, offer: Offer) -> Rejection | None:
        """Return the first rule that rejects the device on every node, or None."""
        return next(filter(None, self._rejections(pool, offer)), None)

    def _rejections(self, pool: Pool, offer: Offer) -> Iterator[Rejection | None]:
        yield self._selector(offer)
        yield self._pool(pool)
        yield BINDING if offer.binding and not self._case.gates.binding else None
        yield self._taint(offer)
        if not self._want.admin:
            yield Rejection(IN_USE, "in use") if in_use(offer, self._case.used) else None
        yield self._capacity(offer)
        if not self._want.admin and offer.id not in self._case.used:
            yield self._counter(pool, offer)
        yield self._node(offer)

    def _selector(self, offer: Offer) -> Rejection | None:
        for place, expression in self._selectors:
            known = offer.matched.get(expression)
            try:
                fits = self._case.engine.matches(expression, offer.id.driver, offer.device) if known is None else known
            except SelectorFault as error:
                return Rejection(SELECTOR, f"selector {place} fails: {error}{_known_keys(str(error), offer)}")
            if known is None and len(offer.matched) < REMEMBERED:
                offer.matched[expression] = fits
            if not fits:
                return Rejection(SELECTOR, f"selector {place} is false: {shortened(expression)}")
        return None

    def _pool(self, pool: Pool) -> Rejection | None:
        if pool.fault:
            return Rejection(POOL, f"its pool is invalid: {pool.fault}")
        return None if pool.complete else UPDATING

    def _taint(self, offer: Offer) -> Rejection | None:
        taint = untolerated(offer.device.taints, self._want.tolerations) if self._case.gates.taints else None
        return Rejection(TAINT, f"untolerated taint {taint_text(taint)}") if taint is not None else None

    def _capacity(self, offer: Offer) -> Rejection | None:
        """Judge the amounts that the request consumes of the device, or that it must have."""
        try:
            share = consumption(self._want, offer)
        except AllocationFault as fault:
            return Rejection(CAPACITY, str(fault))
        if share is None:
            return TOO_SMALL
        short = shortages(self._want, offer, self._case.used, share)
        return Rejection(CAPACITY, f"other shares leave too little of {', '.join(sorted(short))}") if short else None

    def _counter(self, pool: Pool, offer: Offer) -> Rejection | None:
        if self._counters.take(pool, offer):
            self._counters.give(pool, offer)
            return None
        sets = sorted({name for name, _ in offer.consumes})
        return Rejection(COUNTERS, f"other devices in use leave too little of counter set {', '.join(sets)}")

    def _node(self, offer: Offer) -> Rejection | None:
        if self._reaching.nodes(offer.reach):
            return None
        if not offer.reach.node:
            return NO_NODE
        why = self._case.excluded.get(offer.reach.node)
        return Rejection(NODE, f"its node does not fit the pod: {why}" if why else "its node does not exist")


def _known_keys(error: str, offer: Offer) -> str:
    """Return what a device has where an expression asks for a key that it has not."""
    if "no such key" not in error:
        return ""
    maps = {"attributes": offer.device.attributes, "capacity": offer.device.capacity}
    has = [f"{name} {listed(sorted(keys), MAX_KEYS)}" for name, keys in maps.items() if keys]
    return f"; the device has {' and '.join(has) or 'neither attributes nor capacity'}"


def shortened(expression: str) -> str:
    return cut(" ".join(expression.split()), MAX_EXPRESSION)
