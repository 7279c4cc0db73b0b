"""Effects of patches and rules on the devices of a pool, computed once per pool as far as names decide them.

`FilterIndex` finds patches by the driver, pool and device they name; `Overlay` lays several over one another, so that
each key takes its value from the best patch that names it.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from protocols.dra.gates import Gates
from protocols.dra.patching.types import NO_EFFECT, Effect, Known, KnownRule, Rank, TaintKey
from protocols.dra.types import Attribute, Capacity, Filter
from protocols.kube.quantity import Quantity
from protocols.kube.taints import Taint


class _Ranked(Protocol):
    @property
    def serial(self) -> int: ...


K = TypeVar("K", bound=_Ranked)
Place = tuple[str | None, str | None]
"""(driver, pool), None where it is not fixed."""


class Bucket(msgspec.Struct, Generic[K]):
    """Values of patches or rules whose filters name the same driver and pool, or none of them."""

    version: int
    """Changes with `all`; unique over the buckets of its index."""
    all: dict[int, K] = msgspec.field(default_factory=dict)
    """Patches that name no device, by serial."""
    by_device: dict[str, dict[int, K]] = msgspec.field(default_factory=dict)


class FilterIndex(Generic[K]):
    """Values of patches or rules by the driver, pool and device that their filters name."""

    def __init__(self) -> None:
        self._buckets: dict[Place, Bucket[K]] = {}
        self._changes = itertools.count(1)

    def add(self, filter: Filter, known: K) -> None:
        bucket = self._buckets.get((filter.driver, filter.pool))
        if bucket is None:
            bucket = self._buckets[filter.driver, filter.pool] = Bucket(next(self._changes))
        if filter.device is None:
            bucket.all[known.serial] = known
            bucket.version = next(self._changes)
        else:
            bucket.by_device.setdefault(filter.device, {})[known.serial] = known

    def remove(self, filter: Filter, known: K) -> None:
        bucket = self._buckets[filter.driver, filter.pool]
        if filter.device is None:
            del bucket.all[known.serial]
            bucket.version = next(self._changes)
        else:
            held = bucket.by_device[filter.device]
            del held[known.serial]
            if not held:
                del bucket.by_device[filter.device]
        if not bucket.all and not bucket.by_device:
            del self._buckets[filter.driver, filter.pool]

    def buckets(self, driver: str, pool: str) -> list[Bucket[K]]:
        """Return the buckets that may hold something for devices of this pool."""
        return [
            bucket
            for place in ((None, None), (driver, None), (None, pool), (driver, pool))
            if (bucket := self._buckets.get(place)) is not None
        ]


def of_device(buckets: list[Bucket[K]], device: str) -> Iterator[K]:
    """Yield the values whose filters name this device."""
    for bucket in buckets:
        held = bucket.by_device.get(device)
        if held:
            yield from held.values()


class Overlay(msgspec.Struct):
    """Independent of the order in which patches are added."""

    gates: Gates
    attributes: dict[str, tuple[Rank, Attribute | None]] = msgspec.field(default_factory=dict)
    capacity: dict[str, tuple[Rank, Quantity]] = msgspec.field(default_factory=dict)
    taints: dict[TaintKey, tuple[Rank, int, Taint]] = msgspec.field(default_factory=dict)
    """With the place in the patch: taints of one patch stay in its order."""

    def copy(self) -> "Overlay":
        return Overlay(self.gates, dict(self.attributes), dict(self.capacity), dict(self.taints))

    def add(self, known: Known) -> None:
        rank, patch = known.rank, known.patch
        if self.gates.attributes:
            for name, value in patch.attributes.items():
                held = self.attributes.get(name)
                if held is None or rank < held[0]:
                    self.attributes[name] = (rank, value)
            for name, amount in patch.capacity.items():
                have = self.capacity.get(name)
                if have is None or rank < have[0]:
                    self.capacity[name] = (rank, amount)
        if self.gates.taints:
            for place, taint in enumerate(patch.taints):
                known_taint = self.taints.get((taint.key, taint.effect))
                if known_taint is None or rank < known_taint[0]:
                    self.taints[taint.key, taint.effect] = (rank, place, taint)

    def effect(self) -> Effect:
        attributes = {name: value for name, (_, value) in self.attributes.items() if value is not None}
        removed = tuple([name for name, (_, value) in self.attributes.items() if value is None])
        capacity = {name: Capacity(amount) for name, (_, amount) in self.capacity.items()}
        ordered = sorted(self.taints.values(), key=lambda held: held[:2])
        return Effect(attributes, removed, capacity, {(taint.key, taint.effect): taint for _, _, taint in ordered})


def _overlay_of(patches: Iterable[Known], gates: Gates) -> Overlay:
    overlay = Overlay(gates)
    for known in patches:
        overlay.add(known)
    return overlay


KEPT = 256
"""Most cached effects of combinations of patches."""


class Layers:
    """Valid until the versions of its buckets change; patches for one device are looked up live."""

    def __init__(self, patches: list[Bucket[Known]], rules: list[Bucket[KnownRule]], gates: Gates) -> None:
        self._patches = patches
        self._rules = rules
        every = [known for bucket in patches for known in bucket.all.values()]
        self.conditional = sorted((known for known in every if known.is_conditional), key=lambda known: known.rank)
        self._base: Overlay = _overlay_of((known for known in every if not known.is_conditional), gates)
        self._effect = _effect(self._base)
        self._effects: dict[tuple[int, ...], Effect] = {}
        self._base_rules = [known for bucket in rules for known in bucket.all.values()]
        self._taints = _ordered(self._base_rules)

    def uniform(self) -> tuple[Effect, tuple[Taint, ...]] | None:
        """Return the effect that all devices of the pool share; None if it depends on the device."""
        if self.conditional or _has_names(self._patches) or _has_names(self._rules):
            return None
        return self._effect, self._taints

    def of_device(self, device: str) -> list[Known]:
        """Return the patches whose filters name the device."""
        return list(of_device(self._patches, device))

    def effect(self, more: list[Known]) -> Effect:
        """Return the effect of the unconditional patches and `more`."""
        if not more:
            return self._effect
        key = tuple([known.serial for known in more])
        cached = self._effects.get(key)
        if cached is None:
            overlay = self._base.copy()
            for known in more:
                overlay.add(known)
            if len(self._effects) >= KEPT:
                self._effects.clear()
            cached = self._effects[key] = _effect(overlay)
        return cached

    def taints(self, device: str) -> tuple[Taint, ...]:
        """Return the taints of the rules that select the device."""
        named = list(of_device(self._rules, device))
        return _ordered(self._base_rules + named) if named else self._taints


def _has_names(buckets: list[Bucket[K]]) -> bool:
    return any(bucket.by_device for bucket in buckets)


def _effect(overlay: Overlay) -> Effect:
    effect = overlay.effect()
    return NO_EFFECT if effect == NO_EFFECT else effect


def _ordered(rules: list[KnownRule]) -> tuple[Taint, ...]:
    return tuple([known.rule.taint for known in sorted(rules, key=lambda known: known.rank)])


class PoolLayers:
    """Layers by driver and pool, made again when their patches or rules changed."""

    def __init__(self, patches: FilterIndex[Known], rules: FilterIndex[KnownRule], gates: Gates) -> None:
        self._patches = patches
        self._rules = rules
        self._gates = gates
        self._made: dict[tuple[str, str], tuple[tuple[tuple[int, ...], tuple[int, ...]], Layers]] = {}
        """With the versions of the buckets of patches and of rules; each index counts its own."""

    def of(self, driver: str, pool: str) -> Layers:
        patches, rules = self._patches.buckets(driver, pool), self._rules.buckets(driver, pool)
        signature = tuple([bucket.version for bucket in patches]), tuple([bucket.version for bucket in rules])
        known = self._made.get((driver, pool))
        if known is not None and known[0] == signature:
            return known[1]
        layers = Layers(patches, rules, self._gates)
        self._made[driver, pool] = (signature, layers)
        return layers

    def forget(self, driver: str, pool: str) -> None:
        self._made.pop((driver, pool), None)
