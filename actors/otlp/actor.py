"""otlp: export the traces of pods to an OpenTelemetry receiver, if `--otlp` names one.

A process of its own, so that no other one loads the SDK, and a receiver that is slow or away delays nobody. Owns
nothing: it reads the spans that the other processes of the root retain, and those of the root's further nodes. On
kill -9 it reads again what they still have; spans keep their ids, so that the receiver knows the repeated ones.
"""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import Counter

from actors.otlp.pending import Pending
from protocols.actor import Context, run_actor
from protocols.bus import Bus, BusOptions
from protocols.messages.trace import Span
from protocols.process.families import CounterFamily
from protocols.trace import Collector, run_dirs

if TYPE_CHECKING:
    from actors.otlp.exporter import Exporter

POLL_S = 1.0
FLUSH_S = 3.0
"""Time for what waits at the end."""
MOST_ROUNDS = 8
"""Batches read from a process in one pass; it must not lag behind one that records faster than it reads."""

EXPORTED = CounterFamily("nodeplane_otlp_spans_exported_total", "Spans that the receiver accepted.")
LOST = CounterFamily(
    "nodeplane_otlp_spans_lost_total",
    "Spans not exported; reason is rejected by the receiver, waited with too many others, or missed since a process "
    "had dropped them.",
    ("reason",),
)


class Otlp:
    """Collects spans of the root's processes, and exports those of pods that have settled."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending = Pending()
        self._collectors: dict[str, Collector] = {}
        self._buses: list[Bus] = []
        self._exporter: Exporter | None = None
        self._sending = asyncio.Lock()
        self._failing = False
        registry = context.registry
        self._sent = Counter(*EXPORTED, registry=registry)
        self._lost = Counter(*LOST, registry=registry)

    async def start(self) -> None:
        self._context.spawn(self._run(), "export")
        self._context.ready(f"exports to {self._context.settings.otlp}")

    async def stop(self) -> None:
        if self._exporter is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._send(self._pending.all())
            self._exporter.close()
        for bus in self._buses:
            await bus.close()

    def _load(self) -> "Exporter":
        """Load the SDK here and not with the module: all actors are forked from the process that loads modules."""
        from actors.otlp.exporter import Exporter

        return Exporter(self._context.settings.otlp, self._context.settings.node_name)

    async def _run(self) -> None:
        self._exporter = await asyncio.to_thread(self._load)
        while True:
            await self._read()
            await self._export()
            await asyncio.sleep(POLL_S)

    async def _read(self) -> None:
        for run, prefix in run_dirs(self._context.layout):
            collector = self._collectors.get(prefix) or await self._connect(run, prefix)
            names: tuple[str, ...] | None = None
            for _ in range(MOST_ROUNDS):
                collected = await collector.news(names)
                self._pending.add(collected.spans, time.monotonic())
                self._lost.labels("missed").inc(collected.missed)
                names = collected.more
                if not names:
                    break

    async def _connect(self, run: Path, prefix: str) -> Collector:
        """Return a collector on the bus of this process, or on one of its own for a further node."""
        bus = self._context.bus
        if prefix:
            bus = Bus(BusOptions(name="", run_dir=run))
            await bus.start()
            self._buses.append(bus)
        collector = self._collectors[prefix] = Collector(bus, prefix)
        return collector

    async def _export(self) -> None:
        dropped, pods = self._pending.dropped, self._pending.due(time.monotonic())
        self._pending.dropped = 0
        self._lost.labels("waited").inc(dropped)
        await self._send(pods)

    async def _send(self, pods: list[list[Span]]) -> None:
        if not pods or self._exporter is None:
            return
        async with self._sending:  # the exporter is used by one thread at a time
            sent, failed = await asyncio.to_thread(self._exporter.export, pods)
        self._sent.inc(sent)
        self._lost.labels("rejected").inc(failed)
        self._note(bool(failed))

    def _note(self, failing: bool) -> None:
        if failing != self._failing:
            self._failing = failing
            url = self._context.settings.otlp
            text = f"the receiver at {url} does not accept spans" if failing else f"exports to {url}"
            self._context.note(text)
            self._context.log.log(30 if failing else 20, "%s", text)


def main(argv: list[str] | None = None) -> None:
    run_actor("otlp", Otlp, argv)


if __name__ == "__main__":
    main()
