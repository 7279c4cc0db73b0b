"""Patches (or rules) by the names they fix, so that a device finds its own without asking the others."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from protocols.dra.types import Filter


class Ranked(Protocol):
    @property
    def serial(self) -> int: ...


K = TypeVar("K", bound=Ranked)
Place = tuple[str | None, str | None]
"""(driver, pool), None where it is not fixed."""


@dataclass
class Bucket(Generic[K]):
    """Those that fix the same driver and pool, or none."""

    version: int
    """Of no other content of `all`, in no other bucket."""
    all: dict[int, K] = field(default_factory=dict)
    """That fix no device, by serial."""
    by_device: dict[str, dict[int, K]] = field(default_factory=dict)


class Index(Generic[K]):
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
        """All that hold something for devices of this pool."""
        return [
            bucket
            for place in ((None, None), (driver, None), (None, pool), (driver, pool))
            if (bucket := self._buckets.get(place)) is not None
        ]


def of_device(buckets: list[Bucket[K]], device: str) -> Iterator[K]:
    """Those that fix this device."""
    for bucket in buckets:
        held = bucket.by_device.get(device)
        if held:
            yield from held.values()
