"""Ask actors for their spans over the bus: those of one pod, or all that are new."""

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from protocols.bus import Bus, BusError, Unimplemented
from protocols.messages.trace import SPANS, Span, SpanBatch, SpanQuery
from protocols.process.files import is_locked
from protocols.process.layout import Layout

TIMEOUT_S = 3.0
"""Deadline of one actor's answer; one that is down or stopped is left out, and named."""

NOBODY = "-"
"""Uid of no pod."""
MOST_INSTANCES = 512
"""Positions that are retained; a process whose position is gone is read from its oldest span."""


class Collected(msgspec.Struct, frozen=True):
    """Spans of several actors in one list."""

    spans: list[Span]
    missed: int
    """Spans that were dropped before they could be read."""
    silent: tuple[str, ...]
    """Instances that did not answer."""
    more: tuple[str, ...] = ()
    """Instances that have later spans; for `news`."""


def instances(run_dir: Path) -> list[str]:
    """Return the names on the bus of one run directory that a live process holds. Blocks for a few system calls."""
    return sorted(path.stem for path in run_dir.glob("*.rpc") if is_locked(path.with_suffix(".lock")))


def run_dirs(layout: Layout) -> list[tuple[Path, str]]:
    """Return the run directories of a plane, each with the prefix that names its node; empty for the first node."""
    nodes = sorted(path.name for path in (layout.root / "nodes").glob("*") if path.is_dir())
    return [(layout.run, ""), *((layout.node(name).run, f"{name}/") for name in nodes)]


class Collector:
    """Reads spans of the processes of one run directory, through any bus there."""

    def __init__(self, bus: Bus, prefix: str = "") -> None:
        self._bus = bus
        self._prefix = prefix
        """Put before names of instances: `node-2/` for those of a further node."""
        self._positions: dict[str, SpanQuery] = {}

    async def pod(self, uid: str, skip: Collection[str] = ()) -> Collected:
        """Return what the processes retain of a pod; those to `skip`, by their names in `silent`, are not asked."""
        names = [name for name in self._instances() if self._prefix + name not in skip]
        return await self._gather([(name, SpanQuery(pod=uid)) for name in names])

    async def text(self, text: str) -> Collected:
        """Return the spans that contain a text."""
        return await self._gather([(name, SpanQuery(text=text)) for name in self._instances()])

    async def news(self, names: Iterable[str] | None = None) -> Collected:
        """Return the spans of all pods since the last call, at most BATCH of each instance."""
        asked = self._instances() if names is None else list(names)
        while len(self._positions) > MOST_INSTANCES:
            del self._positions[next(iter(self._positions))]
        return await self._gather([(name, self._positions.get(name, SpanQuery())) for name in asked])

    async def recorded(self) -> dict[str, int]:
        """Return the number of spans that each instance recorded so far."""
        names = self._instances()
        batches = await asyncio.gather(*(self._ask(name, SpanQuery(pod=NOBODY)) for name in names))
        return {name: batch.position for name, batch in zip(names, batches, strict=True) if batch is not None}

    def _instances(self) -> list[str]:
        own = self._bus.options.name
        return [name for name in instances(self._bus.options.run_dir) if name != own]

    async def _gather(self, queries: list[tuple[str, SpanQuery]]) -> Collected:
        batches = await asyncio.gather(*(self._ask(name, query) for name, query in queries))
        spans: list[Span] = []
        silent, more, missed = [], [], 0
        for (name, _), batch in zip(queries, batches, strict=True):
            if batch is None:
                silent.append(self._prefix + name)
                continue
            spans += [self._named(span, name) for span in batch.spans]
            missed += batch.missed
            more += [name] if batch.more else []
        return Collected(spans, missed, tuple(silent), tuple(more))

    async def _ask(self, name: str, query: SpanQuery) -> SpanBatch | None:
        try:
            batch = await self._bus.call(name, SPANS, query, SpanBatch, timeout=TIMEOUT_S)
        except Unimplemented:  # a supervisor
            return SpanBatch(0, 0)
        except BusError:
            return None
        if not query.pod and not query.text:
            self._positions.pop(name, None)  # those that no longer answer come first
            self._positions[name] = SpanQuery(epoch=batch.epoch, after=batch.position)
        return batch

    def _named(self, span: Span, instance: str) -> Span:
        return msgspec.structs.replace(span, actor=self._prefix + (span.actor or instance))
