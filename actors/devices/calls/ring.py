"""Bounded rings of call records, one pair for each resource or driver. Pure.

Messages of streams have a ring of their own, so that a plugin that never stops sending lists does not displace what
Allocate answered. The rings belong to the name and not to a connection: they survive that a plugin registers again.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from protocols.messages.calls import CallRecord
from protocols.wire.rendering import Path, reveal

CALLS, CALL_BYTES = 256, 256 << 10
"""Calls kept for each name, and their bytes."""
REPORTS, REPORT_BYTES = 128, 128 << 10
"""Messages of streams kept for each name, and their bytes."""
MAX_PEERS = 64
"""Names with rings; the one that was silent for longest is dropped."""
TOTAL_BYTES = 8 << 20
"""Bytes of all rings; beyond it whole names are dropped, too."""
PAGE_RECORDS, PAGE_BYTES = 500, 512 << 10
"""Bounds of one page of records."""
OVERHEAD = 256
"""Bytes an entry costs besides its record and secrets."""


class RingEntry(NamedTuple):
    """One record, encoded since bytes cost the garbage collector nothing."""

    number: int
    began_ns: int
    seconds: float
    times: int
    body: bytes
    """The record without the fields above."""
    secrets: bytes

    @property
    def size(self) -> int:
        return len(self.body) + len(self.secrets) + OVERHEAD


_encode = msgspec.msgpack.encode


def entry_of(number: int, record: CallRecord, secrets: list[tuple[Path, str]]) -> RingEntry:
    """Encode a record; `secrets` are the values that it hides, with their paths in request and reply."""
    body = _encode(msgspec.structs.replace(record, number=0, began_ns=0, seconds=0.0, times=1))
    return RingEntry(number, record.began_ns, record.seconds, 1, body, _encode(secrets) if secrets else b"")


def decoded(entry: RingEntry, *, show_secrets: bool) -> CallRecord:
    """Return the record of an entry, on request with the secrets in their places."""
    body = msgspec.msgpack.decode(entry.body, type=CallRecord)
    record = msgspec.structs.replace(
        body, number=entry.number, began_ns=entry.began_ns, seconds=entry.seconds, times=entry.times
    )
    if show_secrets and entry.secrets:
        reveal({"request": record.request, "reply": record.reply}, msgspec.msgpack.decode(entry.secrets))
    return record


class Ring:
    """At most `count` entries of `size` bytes together; the oldest make room."""

    def __init__(self, count: int, size: int) -> None:
        self._count, self._limit = count, size
        self._entries: deque[RingEntry] = deque()
        self.size = 0

    def append(self, entry: RingEntry) -> None:
        self._entries.append(entry)
        self.size += entry.size
        while len(self._entries) > self._count or (self.size > self._limit and len(self._entries) > 1):
            self.size -= self._entries.popleft().size

    def last(self) -> RingEntry | None:
        return self._entries[-1] if self._entries else None

    def replace_last(self, entry: RingEntry) -> None:
        self.size += entry.size - self._entries.pop().size
        self._entries.append(entry)

    def after(self, number: int) -> Iterator[RingEntry]:
        return (entry for entry in self._entries if entry.number > number)


class Rings:
    """All rings by name. Names of peers that never registered share the one of the empty name."""

    def __init__(self) -> None:
        self._peers: OrderedDict[str, tuple[Ring, Ring]] = OrderedDict({"": _pair()})
        self.newest = 0
        self.size = 0
        """Bytes of all rings."""

    def add(self, record: CallRecord, secrets: list[tuple[Path, str]], *, report: bool, known: bool) -> None:
        """Append a record under the next number.

        A `report` is a message of a stream, which is counted instead if it equals the last one. The name of a peer that
        is not `known`, since it never registered, gets no ring of its own.
        """
        self.newest += 1
        name = record.peer if known or record.peer in self._peers else ""
        ring = self._pair_of(name)[report]
        entry = entry_of(self.newest, record, secrets)
        last, before = ring.last(), ring.size
        if last is not None and (report or not name) and last.body == entry.body:
            ring.replace_last(entry._replace(times=last.times + 1))
        else:
            ring.append(entry)
        self.size += ring.size - before
        self._trim()

    def page(self, peer: str, after: int) -> tuple[list[RingEntry], bool]:
        """Return the next entries after a number in order, and True if there are more."""
        pairs = self._peers.values() if not peer else [self._peers[name] for name in {"", peer} & self._peers.keys()]
        entries = sorted(entry for pair in pairs for ring in pair for entry in ring.after(after))
        page: list[RingEntry] = []
        size = 0
        for entry in entries:
            size += entry.size
            if page and (len(page) >= PAGE_RECORDS or size > PAGE_BYTES):
                return page, True
            page.append(entry)
        return page, False

    def _pair_of(self, name: str) -> tuple[Ring, Ring]:
        if name not in self._peers:
            self._peers[name] = _pair()
        elif name:
            self._peers.move_to_end(name)
        return self._peers[name]

    def _trim(self) -> None:
        """Drop the names that were silent for longest; the empty one stays."""
        while len(self._peers) > MAX_PEERS or (len(self._peers) > 2 and self.size > TOTAL_BYTES):
            oldest = next(name for name in self._peers if name)
            self.size -= sum(ring.size for ring in self._peers.pop(oldest))


def _pair() -> tuple[Ring, Ring]:
    return Ring(CALLS, CALL_BYTES), Ring(REPORTS, REPORT_BYTES)
