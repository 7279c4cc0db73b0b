"""Escalation checks: find granted permissions that the granting user does not hold.

A rule is the product of its verbs, groups, resources and names. It is never expanded: values that the same held rules
cover form one case, and an AND of bit masks, with a bit for each held rule, decides each combination of cases.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from protocols.kinds.check.budget import BudgetSpent, spend
from protocols.kinds.rbac.policy_rule import ANY, PolicyRule

SHOWN = 100
"""Permissions that an error lists."""
CASES = 50_000
"""Combinations of cases that are checked for one object, which takes milliseconds."""


def uncovered(held: Iterable[PolicyRule], granted: Iterable[PolicyRule]) -> tuple[PolicyRule, ...]:
    """Return the first SHOWN single permissions in `granted` that no rule of `held` covers.

    Raises BudgetSpent for rules of more than CASES combinations.
    """
    rules = tuple(dict.fromkeys(held))
    spend(RULE_UNITS * len(rules))
    have = _Held(rules)
    gaps: dict[PolicyRule, None] = {}
    for rule in dict.fromkeys(granted):
        gaps.update(dict.fromkeys(islice(have.lacks(rule), SHOWN)))
        if len(gaps) >= SHOWN:
            break
    return tuple(islice(gaps, SHOWN))


RULE_UNITS = 5
"""Microseconds that a held rule takes."""


class _Masks:
    """Bit masks of the held rules that contain each value of one dimension."""

    def __init__(self, values: Sequence[Iterable[str]]) -> None:
        self._bytes = len(values) // 8 + 1
        self._rules: dict[str, list[int]] = {}
        for number, rule_values in enumerate(values):
            for value in rule_values:
                self._rules.setdefault(value, []).append(number)
        self.lengths = sorted({len(value) for value in self._rules})
        """Distinct lengths of the values."""

    def of(self, value: str) -> int:
        return self.mask(self._rules.get(value, ()))

    def wild(self, value: str) -> int:
        return self.of(value) | self.of(ANY)

    def mask(self, numbers: Iterable[int]) -> int:
        bits = bytearray(self._bytes)
        for number in numbers:
            bits[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(bits, "little")


class _Held:
    def __init__(self, rules: tuple[PolicyRule, ...]) -> None:
        self._left = CASES
        self._verbs = _Masks([rule.verbs for rule in rules])
        self._groups = _Masks([rule.groups for rule in rules])
        self._resources = _Masks([rule.resources for rule in rules])
        self._names = _Masks([rule.names for rule in rules])
        self._urls = _Masks([rule.urls for rule in rules])
        self._roots = _Masks([[url.rstrip(ANY) for url in rule.urls if url.endswith(ANY)] for rule in rules])
        self._unnamed = self._names.mask(number for number, rule in enumerate(rules) if not rule.names)

    def lacks(self, rule: PolicyRule) -> Iterator[PolicyRule]:
        """Yield the permissions of one rule that are not held."""
        verbs = _cases(rule.verbs, self._verbs.wild)
        for verb, url in self._gaps(_with_rest(verbs, _cases(rule.urls, self._url))):
            yield PolicyRule((verb,), urls=(url,))
        groups, resources = _cases(rule.groups, self._groups.wild), _cases(rule.resources, self._resource)
        names = _cases(rule.names or ("",), self._name)
        for verb, group, resource, name in self._gaps(_with_rest(verbs, groups, resources, names)):
            yield PolicyRule((verb,), (group,), (resource,), (name,) if name else ())

    def _gaps(self, dimensions: Sequence["_Dimension"], mask: int = -1) -> Iterator[tuple[str, ...]]:
        """Yield the combinations of values that no single held rule covers."""
        cases, rest = dimensions[0]
        for covered, values in cases.items():
            self._left -= 1
            if self._left < 0:
                raise BudgetSpent
            both = covered & mask
            if both & rest:
                continue
            below = list(islice(self._gaps(dimensions[1:], both), SHOWN)) if len(dimensions) > 1 else [()]
            yield from ((value, *gap) for value in values for gap in below)

    def _resource(self, value: str) -> int:
        _, _, subresource = value.partition("/")
        covered = self._resources.wild(value)
        return covered | self._resources.of(f"{ANY}/{subresource}") if subresource else covered

    def _name(self, value: str) -> int:
        return self._unnamed | (self._names.of(value) if value else 0)

    def _url(self, value: str) -> int:
        covered = self._urls.wild(value)
        for length in self._roots.lengths:
            if length <= len(value):
                covered |= self._roots.of(value[:length])
        return covered


_Cases = dict[int, list[str]]
"""Values by the mask of the held rules that cover them."""
_Dimension = tuple[_Cases, int]
"""Cases, and the mask of held rules that cover all values of all later dimensions."""


def _cases(values: Iterable[str], mask: Callable[[str], int]) -> _Cases:
    cases: _Cases = {}
    for value in dict.fromkeys(values):
        cases.setdefault(mask(value), []).append(value)
    return cases


def _with_rest(*dimensions: _Cases) -> list[_Dimension]:
    rest = -1
    pairs: list[_Dimension] = []
    for cases in reversed(dimensions):
        pairs.append((cases, rest))
        for mask in cases:
            rest &= mask
    return pairs[::-1]
