"""Serve /stats/summary: usage of the node, its pods and their containers, sampled on request."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from actors.podworker.endpoint.errors import RuntimeUnavailable, StreamTargetMissing
from protocols.bus import BusError
from protocols.kube.times import format_ns
from protocols.messages.pleg import PodStatus
from protocols.process.proc import sizes
from protocols.wire import cri_pb2 as pb

FRESH_S = 1.0
"""Lifetime of a sample, and the shortest distance between two measurements."""
STALE_S = 60.0
"""A measurement older than this is no base for rates: a second one is waited for."""
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
BOOT_NS = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
"""When this machine started."""
Ask = Callable[[], Awaitable["pb.ListContainerStatsResponse"]]


class ContainerUsage(msgspec.Struct, frozen=True):
    """Usage of a container, or of the node; memory in bytes."""

    at_ns: int = 0
    cpu_ns: int = 0
    """CPU time since the container's start."""
    used: int = 0
    """With all of the page cache."""
    working: int = 0
    resident: int = 0
    nanocores: int = 0
    """Mean since the previous measurement."""


class MeasuredContainer(msgspec.Struct, frozen=True):
    """A container with its usage."""

    namespace: str
    pod: str
    uid: str
    name: str
    id: str
    usage: ContainerUsage


class Sample(msgspec.Struct, frozen=True):
    """One measurement of node and containers; `window` in seconds since the one before."""

    taken: float
    """Monotonic time in seconds."""
    window: float
    node: ContainerUsage
    containers: tuple[MeasuredContainer, ...]


class UsageSampler:
    """Measures usage twice to report rates.

    `ask` is the runtime's ListContainerStats, `clock` returns monotonic seconds. Nothing is measured without requests.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._last: Sample | None = None
        self._lock = asyncio.Lock()

    async def sample(self) -> Sample:
        """Return a sample that is at most FRESH_S old. Raises BusError."""
        async with self._lock:
            if self._last is None or self._clock() - self._last.taken > STALE_S:
                self._last = await self._measure(None)
                await asyncio.sleep(FRESH_S)
            if not self._last.window or self._clock() - self._last.taken >= FRESH_S:
                self._last = await self._measure(self._last)
            return self._last

    async def _measure(self, before: Sample | None) -> Sample:
        reply = await self._ask()
        now = self._clock()
        known = {container.id: container.usage for container in before.containers} if before else {}
        measured = [_container(stats, known.get(stats.attributes.id)) for stats in reply.stats]
        containers = tuple(container for container in measured if container.uid and container.usage.at_ns)
        window = now - before.taken if before else 0.0
        return Sample(now, window, _rated(_machine(), before.node if before else None), containers)


def _container(stats: "pb.ContainerStats", before: ContainerUsage | None) -> MeasuredContainer:
    labels, memory = stats.attributes.labels, stats.memory
    usage = ContainerUsage(
        at_ns=stats.cpu.timestamp or memory.timestamp,
        cpu_ns=stats.cpu.usage_core_nano_seconds.value,
        used=memory.usage_bytes.value or memory.working_set_bytes.value,
        working=memory.working_set_bytes.value,
        resident=memory.rss_bytes.value or memory.working_set_bytes.value,
    )
    name = labels.get("io.kubernetes.container.name") or stats.attributes.metadata.name
    namespace, pod, uid = (labels.get(f"io.kubernetes.pod.{part}", "") for part in ("namespace", "name", "uid"))
    return MeasuredContainer(namespace, pod, uid, name, stats.attributes.id, _rated(usage, before))


def _rated(usage: ContainerUsage, before: ContainerUsage | None) -> ContainerUsage:
    if before is None or usage.at_ns <= before.at_ns:
        return usage
    used = max(0, usage.cpu_ns - before.cpu_ns)
    return msgspec.structs.replace(usage, nanocores=used * 1_000_000_000 // (usage.at_ns - before.at_ns))


def _machine() -> ContainerUsage:
    with contextlib.suppress(OSError, ValueError, IndexError):
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        busy = sum(ticks) - sum(ticks[index] for index in _IDLE)
        memory = sizes("/proc/meminfo")
        used, working = (memory.get("MemTotal", 0) - memory.get(free, 0) for free in ("MemFree", "MemAvailable"))
        return ContainerUsage(time.time_ns(), busy * _TICK_NS, used, working, memory.get("AnonPages", working))
    return ContainerUsage(time.time_ns())


def summary(node: str, sample: Sample, status: Callable[[str], PodStatus | None]) -> dict[str, Any]:
    """Return the page of a sample. `status`: runtime status by pod uid."""
    pods: dict[str, list[MeasuredContainer]] = {}
    for container in sample.containers:
        pods.setdefault(container.uid, []).append(container)
    return {
        "node": {"nodeName": node, **_start(BOOT_NS), **_figures(sample.node)},
        "pods": [_pod(containers, status(uid) or PodStatus(uid)) for uid, containers in pods.items()],
    }


def _pod(containers: list[MeasuredContainer], known: PodStatus) -> dict[str, Any]:
    created = {run.id: run.created_ns for run in known.containers}
    began = max((sandbox.created_ns for sandbox in known.sandboxes), default=0)
    first, usages = containers[0], [container.usage for container in containers]
    total = ContainerUsage(
        at_ns=max(usage.at_ns for usage in usages),
        cpu_ns=sum(usage.cpu_ns for usage in usages),
        used=sum(usage.used for usage in usages),
        working=sum(usage.working for usage in usages),
        resident=sum(usage.resident for usage in usages),
        nanocores=sum(usage.nanocores for usage in usages),
    )
    return {
        "podRef": {"name": first.pod, "namespace": first.namespace, "uid": first.uid},
        **_start(began),
        "containers": [
            {"name": container.name, **_start(created.get(container.id, 0)), **_figures(container.usage)}
            for container in containers
        ],
        **_figures(total),
    }


def _start(at_ns: int) -> dict[str, str]:
    return {"startTime": format_ns(at_ns)} if at_ns else {}


def _figures(usage: ContainerUsage) -> dict[str, Any]:
    at = format_ns(usage.at_ns)
    memory = {"workingSetBytes": usage.working, "usageBytes": usage.used, "rssBytes": usage.resident}
    return {
        "cpu": {"time": at, "usageNanoCores": usage.nanocores, "usageCoreNanoSeconds": usage.cpu_ns},
        "memory": {"time": at, **memory},
    }


class StatsRoute:
    """/stats/summary."""

    def __init__(self, node: str, sampler: UsageSampler, status: Callable[[str], PodStatus | None]) -> None:
        self._node = node
        self._sampler = sampler
        self._status = status

    async def serve(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        if path != ["summary"]:
            raise StreamTargetMissing("the node serves its statistics at /stats/summary")
        try:
            sample = await self._sampler.sample()
        except BusError as error:
            raise RuntimeUnavailable(str(error)) from None
        body = {**summary(self._node, sample, self._status), "window": sample.window}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")
