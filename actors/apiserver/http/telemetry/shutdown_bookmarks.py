"""Count of last bookmarks over restarts: a process counts them when nobody reads its metrics any more."""

from contextlib import suppress
from pathlib import Path

import msgspec
from prometheus_client import Counter

from protocols.process.files import UNREADABLE, write_atomic

MOST_BYTES = 1 << 20
"""Bytes of the file that are read: some 10,000 resources."""


class _StoredCount(msgspec.Struct, frozen=True):
    labels: tuple[str, ...]
    count: float


class ShutdownBookmarks:
    """The counter, and the file from which the next process of this name continues it."""

    def __init__(self, path: Path, counter: Counter) -> None:
        self._path = path
        self._counter = counter

    def restore(self) -> None:
        """Continue the count of the process before; a missing or damaged file begins anew."""
        with suppress(OSError, *UNREADABLE):
            with self._path.open("rb") as file:
                stored = msgspec.json.decode(file.read(MOST_BYTES), type=list[_StoredCount])
            for one in stored:
                if 0 <= one.count < 2**53:
                    with suppress(ValueError):  # other labels than the counter has
                        self._counter.labels(*one.labels).inc(one.count)

    def store(self) -> None:
        """Write the count. An error costs only the count."""
        samples = [sample for metric in self._counter.collect() for sample in metric.samples]
        totals = (sample for sample in samples if sample.name.endswith("_total") and sample.value)
        counts = [_StoredCount(tuple(sample.labels.values()), sample.value) for sample in totals]
        with suppress(OSError):
            write_atomic(self._path, msgspec.json.encode(counts))
