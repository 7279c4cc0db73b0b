"""Rules in tables: a `Struct` maps fields to checks.

A check gets the path of a value, the value and the list to which it adds causes. Only fields that are present are
checked, so that an ordinary object costs one lookup for each of its fields. Fields have the right types: decoding
removes unknown fields and rejects wrong types before.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, invalid, unsupported
from protocols.kinds.check.causes import required as required_cause
from protocols.kube.meta import Object

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
        for field in self.needed:
            if not value.get(field):
                causes.append(required_cause(f"{path}.{field}"))
        checks = self.checks
        for field, part in value.items():
            check = checks.get(field)
            if check is not None and part is not None:
                check(f"{path}.{field}", part, causes)
        if self.also is not None:
            self.also(path, value, causes)


def each(check: Check, *, unindexed: bool = False) -> Check:
    """Check each element of a list. `unindexed`: upstream's paths of this list lack the index."""

    def every(path: str, values: list[Any], causes: Causes) -> None:
        for index, value in enumerate(values):
            check(path if unindexed else f"{path}[{index}]", value, causes)

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
    text = text or f"must be between {low} and {high}, inclusive"

    def check(path: str, value: int, causes: Causes) -> None:
        if not low <= value <= high:
            causes.append(invalid(path, value, text))

    return check


def at_least(low: int, text: str = "") -> Check:
    text = text or f"must be greater than or equal to {low}"

    def check(path: str, value: int, causes: Causes) -> None:
        if value < low:
            causes.append(invalid(path, value, text))

    return check


def unique(path: str, values: Iterable[Any], causes: Causes, field: str = "") -> None:
    """Report each value that an earlier element has, too."""
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            causes.append(duplicate(f"{path}[{index}]{field}", value))
        seen.add(value)


def causes_of(check: Check, path: str, value: Any) -> Causes:
    """Return the causes of one check."""
    causes: Causes = []
    check(path, value, causes)
    return causes


def changed_causes(new: Object, old: Object, *fields: str) -> list[Cause]:
    """Report the fields that a write may not change."""
    return [
        invalid(field, new.get(field), "field is immutable") for field in fields if new.get(field) != old.get(field)
    ]
