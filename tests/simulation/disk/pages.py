"""What a power cut leaves of one file: pure.

The kernel writes pages back in any order and at any time until fsync. So each page is on disk as one of its versions
since the last fsync, or torn between two of them at a sector; and the length is one that the file had, or one between.
A truncation frees what it cuts off, so it is there with nothing of before, or not there with nothing of later.
"""

import random
from collections.abc import Iterable, Sequence

PAGE = 4096
SECTOR = 512
TORN = 0.15
"""Share of pages that are torn."""

Write = tuple[int, bytes | None]
"""Offset and data; without data: the file is cut or extended to that length."""


def apply(content: bytearray, writes: Iterable[Write]) -> bytearray:
    """Apply writes in order, in place; a hole reads as zeros."""
    for offset, data in writes:
        if data is None:
            del content[offset:]
        end = offset + len(data or b"")
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        if data:
            content[offset:end] = data
    return content


def settle(durable: bytes, writes: Sequence[Write], chance: random.Random) -> bytes:
    """Draw what is on disk after a power cut."""
    if not writes:
        return bytes(durable)
    mode = chance.random()
    if mode < 0.15:
        return bytes(durable)
    writes = writes[: chance.choice(_ends(durable, writes))]
    if mode < 0.3:
        return bytes(apply(bytearray(durable), writes))
    versions, lengths = _versions(durable, writes)
    length = _length(lengths, chance)
    whole = bytearray(length)
    for place in range(0, length, PAGE):
        page = versions.get(place)
        data = durable[place : place + PAGE] if page is None else _page(page, chance)
        data = data[: length - place]
        whole[place : place + len(data)] = data
    return bytes(whole)


def _ends(durable: bytes, writes: Sequence[Write]) -> list[int]:
    """Return the numbers of writes before each truncation, and of all: nothing outruns a truncation on its way."""
    ends, length = [], len(durable)
    for number, (offset, data) in enumerate(writes):
        if data is None and offset < length:
            ends.append(number)
        length = offset if data is None else max(length, offset + len(data))
    return [*ends, len(writes)]


def _versions(durable: bytes, writes: Sequence[Write]) -> tuple[dict[int, list[bytes]], list[int]]:
    """Return the versions of each page that changed, by offset, and the lengths that the file may have."""
    content = bytearray(durable)
    versions: dict[int, list[bytes]] = {}
    lengths = [len(content)]
    for offset, data in writes:
        before = len(content)
        shrinks = data is None and offset < before
        places = range(
            min(offset, before) // PAGE * PAGE, max(before if shrinks else 0, offset + len(data or b"")), PAGE
        )
        for place in places:
            versions.setdefault(place, [bytes(content[place : place + PAGE])])
        apply(content, [(offset, data)])
        for place in places:
            after = bytes(content[place : place + PAGE])
            versions[place] = [after] if shrinks else [*versions[place], after]
        lengths = [offset] if shrinks else [*lengths, len(content)]
    return versions, lengths


def _length(lengths: list[int], chance: random.Random) -> int:
    length = chance.choice(lengths)
    if chance.random() < 0.3:
        length = chance.randint(min(lengths), max(lengths))
        if chance.random() < 0.7:
            length = max(min(lengths), length // PAGE * PAGE)
    return length


def _page(versions: list[bytes], chance: random.Random) -> bytes:
    number = chance.randrange(len(versions))
    chosen = versions[number]
    if number + 1 < len(versions) and chance.random() < TORN:
        cut = chance.randrange(0, PAGE, SECTOR)
        later = versions[number + 1]
        longest = max(len(chosen), len(later))
        return later.ljust(longest, b"\0")[:cut] + chosen.ljust(longest, b"\0")[cut:]
    return chosen
