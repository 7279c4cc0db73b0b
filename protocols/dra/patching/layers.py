"""What patches and rules mean for one pool: worked out once for all of its devices, as far as names decide it."""

from protocols.dra.patching.index import Bucket, Index, K, of_device
from protocols.dra.patching.overlay import Overlay, overlay_of
from protocols.dra.patching.types import NO_EFFECT, Effect, Gates, Known, KnownRule
from protocols.dra.types import Taint

KEPT = 256
"""Effects of combinations of patches that are kept for the next device with the same combination."""


class Layers:
    """Valid until `signature_of` the same indexes says another thing; patches for one device are looked up live."""

    def __init__(self, patches: list[Bucket[Known]], rules: list[Bucket[KnownRule]], gates: Gates) -> None:
        self._patches = patches
        self._rules = rules
        every = [known for bucket in patches for known in bucket.all.values()]
        self.conditional = sorted((known for known in every if known.conditional), key=lambda known: known.rank)
        self._base: Overlay = overlay_of((known for known in every if not known.conditional), gates)
        self._effect = _effect(self._base)
        self._effects: dict[tuple[int, ...], Effect] = {}
        self._base_rules = [known for bucket in rules for known in bucket.all.values()]
        self._taints = _ordered(self._base_rules)

    def uniform(self) -> tuple[Effect, tuple[Taint, ...]] | None:
        """What is done to every device of the pool alike; None if it depends on the device."""
        if self.conditional or _named(self._patches) or _named(self._rules):
            return None
        return self._effect, self._taints

    def of_device(self, device: str) -> list[Known]:
        """Patches that name the device."""
        return list(of_device(self._patches, device))

    def effect(self, more: list[Known]) -> Effect:
        """Of the unconditional ones and `more`."""
        if not more:
            return self._effect
        key = tuple([known.serial for known in more])
        found = self._effects.get(key)
        if found is None:
            overlay = self._base.copy()
            for known in more:
                overlay.add(known)
            if len(self._effects) >= KEPT:
                self._effects.clear()
            found = self._effects[key] = _effect(overlay)
        return found

    def taints(self, device: str) -> tuple[Taint, ...]:
        """Of the rules that select the device."""
        named = list(of_device(self._rules, device))
        return _ordered(self._base_rules + named) if named else self._taints


def _named(buckets: list[Bucket[K]]) -> bool:
    return any(bucket.by_device for bucket in buckets)


def _effect(overlay: Overlay) -> Effect:
    made = overlay.effect()
    return NO_EFFECT if made == NO_EFFECT else made


def _ordered(rules: list[KnownRule]) -> tuple[Taint, ...]:
    return tuple([known.rule.taint for known in sorted(rules, key=lambda known: known.rank)])


class PoolLayers:
    """Layers by driver and pool, made again when their patches or rules changed."""

    def __init__(self, patches: Index[Known], rules: Index[KnownRule], gates: Gates) -> None:
        self._patches = patches
        self._rules = rules
        self._gates = gates
        self._made: dict[tuple[str, str], tuple[tuple[int, ...], Layers]] = {}

    def of(self, driver: str, pool: str) -> Layers:
        patches, rules = self._patches.buckets(driver, pool), self._rules.buckets(driver, pool)
        signature = (*[bucket.version for bucket in patches], *[bucket.version for bucket in rules])
        known = self._made.get((driver, pool))
        if known is not None and known[0] == signature:
            return known[1]
        made = Layers(patches, rules, self._gates)
        self._made[driver, pool] = (signature, made)
        return made

    def forget(self, driver: str, pool: str) -> None:
        self._made.pop((driver, pool), None)
