"""Current patches, rules and classes, and the devices that a change of one of them affects."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping

from protocols.dra.gates import Gates
from protocols.dra.patching.criteria import Selector, selectors_of
from protocols.dra.patching.layers import FilterIndex
from protocols.dra.patching.types import Known, KnownRule
from protocols.dra.types import DeviceClass, Filter, Patch, Slice, TaintRule

Touched = list[Filter]
"""Filters of the devices to rebuild."""


class Inputs:
    """Patches, rules and classes; each change returns the filters whose devices it may affect."""

    def __init__(self, gates: Gates) -> None:
        self.patches: dict[str, Known] = {}
        self.rules: dict[str, KnownRule] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.patch_index: FilterIndex[Known] = FilterIndex()
        self.rule_index: FilterIndex[KnownRule] = FilterIndex()
        self.gates = gates
        self._serials = itertools.count(1)
        self._by_class: dict[str, dict[str, None]] = {}
        self._selectors: dict[int, tuple[Selector, ...] | None] = {}
        """Selectors by the patch's serial; dropped when its class changes."""
        self._uses: Counter[str] = Counter()
        self._unused: set[str] = set()

    def put_patch(self, patch: Patch) -> Touched:
        """Add or replace a patch. A patch without any effect under the feature gates is dropped."""
        held = self.patches.get(patch.name)
        if held is not None and held.patch == patch:
            return []
        touched = self.drop_patch(patch.name)
        if not self._has_effect(patch):
            return touched
        known = Known(next(self._serials), patch.rank, patch)
        self.patches[patch.name] = known
        self.patch_index.add(patch.filter, known)
        if patch.filter.class_name is not None:
            self._by_class.setdefault(patch.filter.class_name, {})[patch.name] = None
        self._use(patch.filter.selectors)
        return [*touched, patch.filter]

    def drop_patch(self, name: str) -> Touched:
        known = self.patches.pop(name, None)
        if known is None:
            return []
        filter = known.patch.filter
        self.patch_index.remove(filter, known)
        self._selectors.pop(known.serial, None)
        if filter.class_name is not None:
            users = self._by_class[filter.class_name]
            del users[name]
            if not users:
                del self._by_class[filter.class_name]
        self._disuse(filter.selectors)
        return [filter]

    def put_rule(self, rule: TaintRule) -> Touched:
        """Add or replace a rule; without a selector it selects nothing, and is not indexed."""
        held = self.rules.get(rule.name)
        if held is not None and held.rule == rule:
            return []
        touched = self.drop_rule(rule.name)
        if rule.selector is None or not self.gates.taints:
            return touched
        known = KnownRule(next(self._serials), rule.name, rule)
        self.rules[rule.name] = known
        self.rule_index.add(rule.selector, known)
        return [*touched, rule.selector]

    def drop_rule(self, name: str) -> Touched:
        known = self.rules.pop(name, None)
        if known is None or known.rule.selector is None:
            return []
        self.rule_index.remove(known.rule.selector, known)
        return [known.rule.selector]

    def put_class(self, new: DeviceClass) -> Touched:
        held = self.classes.get(new.name)
        self.classes[new.name] = new
        if held is not None and held.selectors == new.selectors:
            return []
        self._use(new.selectors)
        if held is not None:
            self._disuse(held.selectors)
        return self._of_class(new.name)

    def drop_class(self, name: str) -> Touched:
        held = self.classes.pop(name, None)
        if held is None:
            return []
        self._disuse(held.selectors)
        return self._of_class(name)

    def selectors(self, known: Known) -> tuple[Selector, ...] | None:
        """Return the selectors of a patch and its class; None while the class is missing."""
        if known.serial not in self._selectors:
            self._selectors[known.serial] = selectors_of(known.patch, self.classes)
        return self._selectors[known.serial]

    def unused(self) -> set[str]:
        """Return the expressions that became unused since the last call."""
        expressions = {expression for expression in self._unused if not self._uses[expression]}
        self._unused.clear()
        return expressions

    def _of_class(self, name: str) -> Touched:
        users = [self.patches[patch] for patch in self._by_class.get(name, ())]
        for known in users:
            self._selectors.pop(known.serial, None)
        return [known.patch.filter for known in users]

    def _has_effect(self, patch: Patch) -> bool:
        values = self.gates.attributes and (patch.attributes or patch.capacity)
        return bool(values or (self.gates.taints and patch.taints))

    def _use(self, expressions: tuple[str, ...]) -> None:
        self._uses.update(expressions)

    def _disuse(self, expressions: tuple[str, ...]) -> None:
        self._uses.subtract(expressions)
        for expression in expressions:
            if self._uses[expression] <= 0:
                del self._uses[expression]
                self._unused.add(expression)


Names = dict[str, None]
"""Names of slices in order of arrival."""
_NONE: Names = {}


class Places:
    """Names of slices by the names that filters may use, to find the slices that a change affects."""

    def __init__(self) -> None:
        self._by_driver: dict[str, Names] = {}
        self._by_pool: dict[str, Names] = {}
        self._by_device: dict[str, Names] = {}

    def add(self, each: Slice) -> None:
        self._by_driver.setdefault(each.driver, {})[each.name] = None
        self._by_pool.setdefault(each.pool, {})[each.name] = None
        for device in each.devices:
            self._by_device.setdefault(device.name, {})[each.name] = None

    def remove(self, each: Slice) -> None:
        _drop(self._by_driver, each.driver, each.name)
        _drop(self._by_pool, each.pool, each.name)
        for device in each.devices:
            _drop(self._by_device, device.name, each.name)

    def of(self, filter: Filter, slices: Mapping[str, Slice]) -> Iterable[str]:
        """Return the names of slices with devices that match the names of a filter."""
        fixed = [
            index.get(name, _NONE)
            for index, name in (
                (self._by_driver, filter.driver),
                (self._by_pool, filter.pool),
                (self._by_device, filter.device),
            )
            if name is not None
        ]
        if not fixed:
            return slices
        smallest = min(fixed, key=len)
        return [name for name in smallest if all(name in names for names in fixed)]


def _drop(index: dict[str, Names], key: str, name: str) -> None:
    names = index.get(key)
    if names is not None:
        names.pop(name, None)
        if not names:
            del index[key]
