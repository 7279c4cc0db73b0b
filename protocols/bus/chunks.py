"""Long answers cut into chunks, one at a time: a body is encoded only when its chunk is asked for. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from protocols.bus.bodies import body_of
from protocols.bus.frames import EventFrame, cost
from protocols.bus.types import Item

T = TypeVar("T")
Pair = tuple[str, bytes]


class ChunkLimits(msgspec.Struct, frozen=True):
    bytes: int = 256 << 10
    """A chunk ends before it passes this; a single larger body travels alone."""
    count: int = 2048


def item_chunks(items: Iterable[Item], limits: ChunkLimits) -> Iterator[tuple[bool, list[Pair]]]:
    """A snapshot as (is last, pairs); an empty one is one empty chunk."""
    pairs = ((item.key, body_of(item.value)) for item in items)
    return _cut(pairs, limits, lambda pair: len(pair[0]) + len(pair[1]))


def event_chunks(events: Iterable[EventFrame], limits: ChunkLimits) -> Iterator[tuple[bool, list[EventFrame]]]:
    """A replay as (is last, events)."""
    return _cut(events, limits, cost)


def _cut(things: Iterable[T], limits: ChunkLimits, cost: Callable[[T], int]) -> Iterator[tuple[bool, list[T]]]:
    chunk: list[T] = []
    size = 0
    for thing in things:
        size += cost(thing)
        if chunk and (size > limits.bytes or len(chunk) >= limits.count):
            yield False, chunk
            chunk, size = [], cost(thing)
        chunk.append(thing)
    yield True, chunk
