"""Several patches laid over one another: each key takes its value from the best patch that names it."""

from collections.abc import Iterable

import msgspec

from protocols.dra.patching.types import Effect, Gates, Known, Rank, TaintKey
from protocols.dra.types import Attribute, Capacity, Taint
from protocols.kube.quantity import Quantity


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


def overlay_of(patches: Iterable[Known], gates: Gates) -> Overlay:
    made = Overlay(gates)
    for known in patches:
        made.add(known)
    return made
