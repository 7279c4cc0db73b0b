"""Read what nobody publishes: status of supervisors, CPU and memory, metrics, calls, spans, and the ends of logs."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from actors.recorder.log_files import ContainerLogs, Lines
from actors.recorder.streams import now_ms
from protocols.bus import Bus, BusError
from protocols.messages import calls, devices
from protocols.messages.calls import CallsReply, CallsRequest
from protocols.messages.supervisor import METRICS, ROOT_NAME, STATUS, Empty, MetricsText, PlaneStatus
from protocols.process.layout import Layout
from protocols.process.proc import RESIDENT, STATE, cpu_s, stat_fields
from protocols.recording import sources
from protocols.recording.samples import NAMES, SERVER, names_of, samples
from protocols.recording.writer import RecordingWriter
from protocols.trace import Collector, instances, wall_offset

TIMEOUT_S = 3.0
MOST_ROUNDS = 8
"""Batches of calls, or of spans, that one pass reads."""
SPANS_EVERY, USAGE_EVERY, METRICS_EVERY = 2, 5, 10
"""Passes, of one second each."""
_PAGES_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
SERVER_EVERY = 3
"""Passes, by default of ten seconds each: the page of an API process costs it 60 ms."""
MOST = 2_000
"""Samples of a process that are recorded; later ones of its page are left out."""
LONGEST = 500
"""Characters of a sample's name and labels; a longer one is left out."""


class MetricsSampler:
    """Samples of the processes of one run directory."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._passes = 0
        self._server = ""

    async def read(self, instances: list[str], last: bool = False) -> dict[str, dict[str, float]]:
        """Return the samples of the processes that are due, by instance; one that does not answer is left out."""
        due = [name for name in instances if name in NAMES]
        if last or self._passes % SERVER_EVERY == 0:
            due += self._next_server([name for name in instances if name.startswith(SERVER)])
        self._passes += 1
        answers = await asyncio.gather(*map(self._samples, due))
        return {name: each for name, each in zip(due, answers, strict=True) if each}

    def _next_server(self, servers: list[str]) -> list[str]:
        later = [name for name in servers if name > self._server]
        chosen = (later or servers)[:1]
        self._server = "".join(chosen)
        return chosen

    async def _samples(self, instance: str) -> dict[str, float]:
        try:
            reply = await self._bus.call(instance, METRICS, Empty(), MetricsText, timeout=TIMEOUT_S)
        except BusError:
            return {}  # it is away
        values: dict[str, float] = {}
        for sample, value in samples(reply.text, names_of(instance)):
            if len(sample) <= LONGEST and len(values) < MOST:
                values[sample] = value
        return values


class RecordedNode:
    """One node's processes, through a bus of its run directory."""

    def __init__(self, bus: Bus, where: Layout, prefix: str, writer: RecordingWriter) -> None:
        self._bus, self._where, self._prefix, self._writer = bus, where, prefix, writer
        self._collector = Collector(bus, prefix)
        self._metrics = MetricsSampler(bus)
        self._call_position = CallsRequest()
        self._passes = 0
        self._cpu: dict[str, tuple[int, float, float]] = {}
        self._container_logs = ContainerLogs(where.pod_logs)
        self._lines = Lines(where.logs)

    async def read(self, last: bool = False) -> None:
        """Read everything that is due; at the `last` pass all of it but the status, in which we are stopping."""
        self._passes += 1
        if not last:
            await self._read_status()
        await self._read_calls()
        if last or self._passes % SPANS_EVERY == 0:
            await self._read_spans()
        if last or self._passes % USAGE_EVERY == 1:
            self._read_usage()
        if last or self._passes % METRICS_EVERY == 1:
            await self._read_metrics(last)
        self._read_files()

    async def _read_status(self) -> None:
        names = [name for name in instances(self._where.run) if name.startswith(ROOT_NAME)]
        for name in names:
            with suppress(BusError):
                status = await self._bus.call(name, STATUS, Empty(), PlaneStatus, timeout=TIMEOUT_S)
                self._take(name, status)

    def _take(self, name: str, status: PlaneStatus) -> None:
        at, plane = now_ms(), msgspec.to_builtins(status)
        rows = {f"{name} {row['instance']}": _since(row, at) for row in plane.pop("actors")}
        source, known = self._prefix + sources.ACTORS, self._writer.state
        for key in [key for key in known.get(source, ()) if key.startswith(f"{name} ") and key not in rows]:
            self._writer.remove(source, key, at)
        for key, row in rows.items():
            self._writer.set(source, key, row, at)
        self._writer.set(self._prefix + sources.SUPERVISORS, name, _since(plane, at), at)

    async def _read_calls(self) -> None:
        for _ in range(MOST_ROUNDS):
            try:
                reply = await self._bus.call(
                    devices.OWNER, calls.CALLS, self._call_position, CallsReply, timeout=TIMEOUT_S
                )
            except BusError:
                return None  # it is away; what it recorded until then is known
            self._call_position = CallsRequest(incarnation=reply.incarnation, after=reply.newest)
            for record in reply.records:
                ended = record.began_ns // 1_000_000 + int(record.seconds * 1_000)
                self._writer.happened(self._prefix + sources.CALLS, record.peer, msgspec.to_builtins(record), ended)
            if not reply.more:
                return self._set_pending(reply)
        return None

    def _set_pending(self, reply: CallsReply) -> None:
        pending = {str(record.number): msgspec.to_builtins(record) for record in reply.pending}
        self._replace(sources.PENDING, pending)

    def _replace(self, source: str, items: dict[str, Any]) -> None:
        at, source = now_ms(), self._prefix + source
        for key in [key for key in self._writer.state.get(source, ()) if key not in items]:
            self._writer.remove(source, key, at)
        for key, value in items.items():
            self._writer.set(source, key, value, at)

    async def _read_spans(self) -> None:
        names: tuple[str, ...] | None = None
        offset = wall_offset()
        for _ in range(MOST_ROUNDS):
            collected = await self._collector.news(names)
            for span in collected.spans:
                ended = (span.start_ns + span.duration_ns + offset) // 1_000_000
                self._writer.happened(sources.SPANS, span.pod, msgspec.to_builtins(span), ended)
            names = collected.more
            if not names:
                return

    def _read_usage(self) -> None:
        now = time.monotonic()
        pids = dict(self._pids())
        by_name = {name: usage for name, pid in pids.items() if (usage := self._usage(name, pid, now))}
        self._cpu = {name: seen for name, seen in self._cpu.items() if name in pids}
        self._replace(sources.USAGE, by_name)

    def _pids(self) -> Iterator[tuple[str, int]]:
        for source in (sources.ACTORS, sources.SUPERVISORS):
            for key, row in self._writer.state.get(self._prefix + source, {}).items():
                if row["pid"]:
                    yield key.rpartition(" ")[2], row["pid"]

    def _usage(self, name: str, pid: int, now: float) -> list[Any]:
        fields = stat_fields(pid)
        if not fields:
            return []
        used = cpu_s(fields)
        old_pid, before, at = self._cpu.get(name, (0, 0.0, 0.0))
        self._cpu[name] = (pid, used, now)
        cpu = (used - before) / (now - at) * 100 if old_pid == pid and now > at else 0.0
        return [round(cpu, 1), round(int(fields[RESIDENT]) * _PAGES_MIB, 1), fields[STATE] == b"T"]

    async def _read_metrics(self, last: bool) -> None:
        names, source = instances(self._where.run), self._prefix + sources.METRICS
        by_instance, at = await self._metrics.read(names, last), now_ms()
        for key in [key for key in self._writer.state.get(source, ()) if key not in names]:
            self._writer.remove(source, key, at)
        for instance, values in by_instance.items():
            self._writer.set(source, instance, {"at_ms": at, "samples": values}, at)

    def _read_files(self) -> None:
        since = _changed_s(self._where.registration_socket)
        self._replace(sources.REGISTRATION, {"socket": since} if since else {})
        at, source = now_ms(), self._prefix + sources.LOGS
        changed, gone = self._container_logs.news()
        for key in gone:
            self._writer.remove(source, key, at)
        for key, lines in changed.items():
            self._writer.set(source, key, lines, at)
        for instance, line in self._lines.news():
            self._writer.happened(self._prefix + sources.LINES, instance, line, at)


def _since(row: dict[str, Any], at_ms: int) -> dict[str, Any]:
    """Replace the uptime by the time since which it counts, in tenths of a second: it does not change each time."""
    row["began_ms"] = round((at_ms - row.pop("uptime_s") * 1000) / 100) * 100
    return row


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
