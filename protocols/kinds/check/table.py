"""Rules in tables: a `Struct` maps fields to checks.

A check gets the path of a value, the value and the list to which it adds causes. Only fields that are present are
checked, so that an ordinary object costs one lookup for each of its fields. Fields have the right types: decoding
removes unknown fields and rejects wrong types before.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, too_many, unsupported
from protocols.kinds.check.causes import required as required_cause
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object
from protocols.kube.objects import at

Causes = list[Cause]
Check = Callable[[str, Any, Causes], None]
Faults = Callable[[str], Iterable[str]]
"""Return the reasons for rejecting a text."""


class Struct:
    """Check the fields of an object.

    `needed` lists fields that must be present and not empty, `also` is called for the whole object, `fields`
    holds checks by names that are constants.
    """

    __slots__ = ("also", "checks", "needed")

    def __init__(
        self, needed: str = "", also: Check | None = None, fields: Mapping[str, Check] | None = None, **checks: Check
    ) -> None:
        self.needed, self.also, self.checks = tuple(needed.split()), also, {**(fields or {}), **checks}

    def __call__(self, path: str, value: Object, causes: Causes) -> None:
        prefix = f"{path}." if path else ""
        for field in self.needed:
            if not value.get(field):
                causes.append(required_cause(prefix + field))
        checks = self.checks
        for field, part in value.items():
            check = checks.get(field)
            if check is not None and part is not None:
                check(prefix + field, part, causes)
        if self.also is not None:
            self.also(path, value, causes)


class _Absent(str):
    """An empty text that stands for a field that is not there; one that is there and empty is another object."""

    __slots__ = ()


ABSENT = _Absent()
ZEROS: Mapping[str, Any] = {"": ABSENT, "0": 0, "{}": {}}
"""Values of absent fields, by the notation of `Ordered`."""


class Ordered:
    """Check the fields of an object in the order of the table.

    `always` lists fields that are checked although they are absent: as "", as 0 where it says `field=0`, as an empty
    object where it says `field={}`. The path of a whole object is empty.
    """

    __slots__ = ("checks",)

    def __init__(self, always: str = "", /, **checks: Check) -> None:
        named = (field.partition("=") for field in always.split())
        zeros = {field: ZEROS[zero] for field, _, zero in named}
        self.checks = tuple((field, check, zeros.get(field)) for field, check in checks.items())

    def __call__(self, path: str, value: Object, causes: Causes) -> None:
        prefix = f"{path}." if path else ""
        for field, check, zero in self.checks:
            part = value.get(field)
            if part is None:
                part = zero
            if part is not None:
                check(prefix + field, part, causes)


def anything(path: str, value: Any, causes: Causes) -> None:
    """Accept any value."""


def never(detail: str) -> Check:
    """Report any value as forbidden."""
    return lambda path, value, causes: causes.append(forbidden(path, detail))


def faulty(is_wrong: Callable[[Any], bool], text: str) -> Check:
    """Report values as invalid, without showing them: some may be long."""

    def check(path: str, value: Any, causes: Causes) -> None:
        if is_wrong(value):
            causes.append(invalid(path, "", text))

    return check


def needed(check: Check, detail: str = "") -> Check:
    """Report an empty value as missing, and check any other."""

    def some(path: str, value: Any, causes: Causes) -> None:
        if value:
            check(path, value, causes)
        else:
            causes.append(required_cause(path, detail))

    return some


def present(check: Check, detail: str = "") -> Check:
    """Report a field that an `Ordered` table found absent; an empty one is present."""

    def held(path: str, value: Any, causes: Causes) -> None:
        if value is ABSENT:
            causes.append(required_cause(path, detail))
        else:
            check(path, value, causes)

    return held


def each(
    check: Check, *, unindexed: bool = False, limit: int = 0, key: Callable[[Any], Any] | None = None, at: str = ""
) -> Check:
    """Check each element of a list, of none with more than `limit` elements.

    Elements must differ by their `key`, which is the field `at` of an element. `unindexed`: upstream's paths of this
    list lack the index.
    """

    def every(path: str, values: list[Any], causes: Causes) -> None:
        if limit and len(values) > limit:
            causes.append(too_many(path, len(values), limit))
            return
        for index, value in enumerate(values):
            check(path if unindexed else f"{path}[{index}]", value, causes)
        if key is not None:
            unique(path, map(key, values), causes, at)

    return every


def entries(key: Check, value: Check = anything) -> Check:
    """Check each key and each value of a map, at a path such as `spec.hard[cpu]`."""

    def every(path: str, values: Object, causes: Causes) -> None:
        for name, part in values.items():
            key(f"{path}[{name}]", name, causes)
            value(f"{path}[{name}]", part, causes)

    return every


def at_most(limit: int) -> Check:
    """Check the number of elements; those beyond are checked, too."""

    def check(path: str, values: list[Any], causes: Causes) -> None:
        if len(values) > limit:
            causes.append(too_many(path, len(values), limit))

    return check


def once() -> Check:
    """Return the check of a value that differs in each element of one list: make one for each list."""
    seen = set()

    def check(path: str, value: Any, causes: Causes) -> None:
        if value in seen:
            causes.append(duplicate(path, value))
        seen.add(value)

    return check


def together(*checks: Check) -> Check:
    """Return a check that runs all the given ones in order."""

    def every(path: str, value: Any, causes: Causes) -> None:
        for check in checks:
            check(path, value, causes)

    return every


CACHED_LENGTH, CACHED_TEXTS = 256, 1024
"""Texts up to this length, and this many of them for each rule, are checked once."""


def cached(faults: Faults) -> Faults:
    """Return `faults` with a bounded cache: the same names come with every object."""
    known = functools.lru_cache(maxsize=CACHED_TEXTS)(lambda text: tuple(faults(text)))
    return lambda text: known(text) if len(text) <= CACHED_LENGTH else faults(text)


def texts(faults: Faults, *, empty: bool = False) -> Check:
    """Check a text. An empty one is valid, or left to `needed`, unless `empty`."""
    faults = cached(faults)

    def check(path: str, value: str, causes: Causes) -> None:
        if value or empty:
            for fault in faults(value):
                causes.append(invalid(path, value, fault))

    return check


def one_of(*allowed: str, empty: bool = False, also: str = "") -> Check:
    """Check an enumeration. An empty value is valid, or left to `needed`, unless `empty`.

    `also` is a valid value that upstream's text does not list.
    """

    def check(path: str, value: str, causes: Causes) -> None:
        if value not in allowed and (value or empty) and (not also or value != also):
            causes.append(unsupported(path, value, allowed))

    return check


def between(low: int, high: int, text: str = "") -> Check:
    """Return a check of numbers from `low` to `high`; `text` replaces upstream's usual message."""
    text = text or f"must be between {low} and {high}, inclusive"

    def check(path: str, value: int, causes: Causes) -> None:
        if not low <= value <= high:
            causes.append(invalid(path, value, text))

    return check


def at_least(low: int, text: str = "") -> Check:
    """Return a check of numbers not below `low`; `text` replaces upstream's usual message."""
    text = text or f"must be greater than or equal to {low}"

    def check(path: str, value: int, causes: Causes) -> None:
        if value < low:
            causes.append(invalid(path, value, text))

    return check


def unique(path: str, values: Iterable[Any], causes: Causes, field: str = "") -> None:
    """Report each value that an earlier element has, too."""
    is_new = once()
    for index, value in enumerate(values):
        is_new(f"{path}[{index}]{field}", value, causes)


def causes_of(check: Check, path: str, value: Any) -> Causes:
    """Return the causes of one check."""
    causes: Causes = []
    check(path, value, causes)
    return causes


def changed_causes(new: Object, old: Object, *paths: str) -> list[Cause]:
    """Report the fields that a write may not change, by paths such as `spec.selector`."""
    values = [(path, at(new, *path.split(".")), at(old, *path.split("."))) for path in paths]
    return [
        invalid(path, value, "field is immutable") for path, value, stored in values if not same_json(value, stored)
    ]
