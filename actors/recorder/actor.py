"""recorder: write what happens on a plane to a file, if `--record` names one, for `--replay`.

A process of its own, so that its file delays nobody and its end harms nobody. Owns the file, to which it only appends
whole frames. On kill -9 the file ends up to a second earlier, and the recorder that starts again appends to it.

It is the first process that a shutdown ends: its last pass reads the others while they live.
"""

import asyncio
import contextlib
from pathlib import Path

from prometheus_client import Counter

from actors.recorder.polls import RecordedNode
from actors.recorder.streams import follow_node, follow_objects, now_ms
from protocols.actor import Context, run_actor
from protocols.bus import Bus, BusOptions
from protocols.process.families import CounterFamily
from protocols.process.layout import Layout
from protocols.recording.frames import Header
from protocols.recording.writer import RecordingWriter
from protocols.trace import run_dirs, wall_offset
from protocols.version import installed_version

PASS_S = 1.0
LAST_S = 4.0
"""Time for the last pass."""

WRITTEN = CounterFamily("nodeplane_recording_bytes_total", "Bytes written to the recording.")
LOST = CounterFamily(
    "nodeplane_recording_lost_total",
    "Changes and entries left out of the recording: too large, too many, or the disk had no room.",
)


class Recorder:
    """Reads all processes of the plane once a second and writes what is new."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._path = Path(context.settings.record)
        self._nodes: dict[str, RecordedNode] = {}
        self._buses: list[Bus] = []
        self._writer: RecordingWriter | None = None
        self._failing = ""
        self._reading = asyncio.Lock()
        """Held by a pass, and by the last one for good: two would read the same spans and calls."""
        registry = context.registry
        self._bytes = Counter(*WRITTEN, registry=registry)
        self._lost = Counter(*LOST, registry=registry)

    async def start(self) -> None:
        settings = self._context.settings
        header = Header(installed_version(), now_ms(), settings.node_name, settings.feature_gates)
        self._writer = RecordingWriter(self._path, header, settings.record_limit)
        follow_objects(self._context.bus, self._writer)
        self._context.spawn(self._run(self._writer), "recording")
        self._context.ready(f"records to {self._path}")

    async def stop(self) -> None:
        if self._writer is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await self._reading.acquire()
                await asyncio.gather(*(node.read(last=True) for node in self._nodes.values()))
        self._flush(self._writer)
        self._writer.close()
        for bus in self._buses:
            await bus.close()

    async def _run(self, writer: RecordingWriter) -> None:
        while True:
            async with self._reading:
                await self._connect(writer)
                for node in self._nodes.values():
                    await node.read()
                self._flush(writer)
            await asyncio.sleep(PASS_S)

    async def _connect(self, writer: RecordingWriter) -> None:
        """Follow nodes that are new, through the bus of this process or, for a further node, one of its own."""
        for run, prefix in run_dirs(self._context.layout):
            if prefix in self._nodes or not run.is_dir():
                continue
            bus = await self._bus_of(run) if prefix else self._context.bus
            follow_node(bus, writer, prefix)
            self._nodes[prefix] = RecordedNode(bus, self._layout_of(prefix), prefix, writer)

    async def _bus_of(self, run: Path) -> Bus:
        bus = Bus(BusOptions(name="", run_dir=run))
        await bus.start()
        self._buses.append(bus)
        return bus

    def _layout_of(self, prefix: str) -> Layout:
        where = self._context.layout
        return where.node(prefix.removesuffix("/")) if prefix else where

    def _flush(self, writer: RecordingWriter) -> None:
        size, lost, failure = writer.size, writer.left_out, ""
        try:
            writer.flush(now_ms(), wall_offset())
        except OSError as error:
            failure = f"{self._path}: {error.strerror}; what happens meanwhile is not recorded"
        self._bytes.inc(max(0, writer.size - size))
        self._lost.inc(writer.left_out - lost)
        if failure != self._failing:
            self._failing = failure
            self._context.note(failure or f"records to {self._path}")
            self._context.log.log(30 if failure else 20, "%s", failure or f"records again to {self._path}")


def main(argv: list[str] | None = None) -> None:
    run_actor("recorder", Recorder, argv)


if __name__ == "__main__":
    main()
