"""Device health: from a plugin's or driver's message to the pod's status on an API watch, and a node whose devices all
flap."""

import asyncio
import time
from statistics import median

from protocols.kinds.table import PODS
from protocols.lifecycle.devices.status_table import BURST
from tests.bench.health_lab import HealthLab
from tests.bench.health_sources import DriverSource, PluginSource
from tests.bench.plane_bench import proportional_mb
from tests.bench.row import Row, at_most
from tests.support.plane import Plane

Kind = type[PluginSource] | type[DriverSource]
PODS_COUNT = 100
CHANGES_S, CHANGES, BARE = 100, 1000, 1000
P50_MS, P99_MS = 10.0, 50.0
FLAPPING, FLAP_S, WARM_S, LISTS_S = 1000, 15.0, 5.0, 10
RATE = 2
"""--device-health-rate, the default."""
GROWTH_MB, LATEST_S = 8.0, 1.0
NODE = ("devices", "health", "podworker", "frontdoor")
"""Whose memory must not grow. Of the API's processes the watch cache keeps 75 s of history, however much that is."""


def plugins() -> list[Row]:
    return _both(PluginSource, "device message", "devices")


def drivers() -> list[Row]:
    return _both(DriverSource, "DRA message", "DRA devices")


def _both(source: Kind, message: str, devices: str) -> list[Row]:
    return [*asyncio.run(_latency(source, message)), *asyncio.run(_flapping(source, devices))]


async def _latency(source: Kind, message: str) -> list[Row]:
    """100 changes a second over 100 pods of one device each; floor: a PATCH of the same status, to the same watch."""
    with Plane("--store-sync", "full") as plane:
        lab = HealthLab(plane, source, PODS_COUNT, 1)
        try:
            await lab.open()
            bare = await _bare(lab)
            times = await _changes(lab)
        finally:
            await lab.close()
    return _rows(f"{message} to status on a watch", times, bare)


def _rows(what: str, times: list[float], bare: list[float]) -> list[Row]:
    return [
        at_most(f"{what}, p50, 100/s", [median(times)], "ms", P50_MS, median(bare)),
        at_most(f"{what}, p99", [_p99(times)], "ms", P99_MS, _p99(bare)),
    ]


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


async def _changes(lab: HealthLab) -> list[float]:
    devices = sorted(lab.source.truth)
    sent: dict[str, float] = {}
    times: list[float] = []

    def seen(name: str) -> None:
        (device,) = lab.health[name]
        if device in sent and lab.is_shown(device):
            times.append(1000 * (time.perf_counter() - sent.pop(device)))

    lab.on_pod = seen
    began = time.perf_counter()
    for number in range(CHANGES):
        device = devices[number % len(devices)]
        await asyncio.sleep(began + number / CHANGES_S - time.perf_counter())
        lab.source.set(device, healthy=bool(number // len(devices) % 2))
        sent[device] = time.perf_counter()
        lab.source.change()
    await lab.until("every change shown", lab.truth_is_shown)
    return times


async def _bare(lab: HealthLab) -> list[float]:
    """What any client pays for a status that a watch shows, at the same pace: pods of no node, that nobody works on."""
    names = await lab.bystanders(PODS_COUNT)
    sent: dict[str, float] = {}
    times: list[float] = []

    def seen(name: str) -> None:
        if name in sent:
            times.append(1000 * (time.perf_counter() - sent.pop(name)))

    lab.on_event = seen
    began, writes = time.perf_counter(), set[asyncio.Task[object]]()
    for number in range(BARE):
        name = names[number % len(names)]
        await asyncio.sleep(began + number / CHANGES_S - time.perf_counter())
        body = {"status": {"message": str(number)}}
        sent[name] = time.perf_counter()
        write = lab.client.patch(PODS, name, "default", body, kind="strategic", subresource="status")
        writes.add(asyncio.create_task(write))
    await asyncio.gather(*writes)
    await lab.until("every write shown", lambda: not sent)
    lab.on_event = lambda name: None
    return times


async def _flapping(source: Kind, devices: str) -> list[Row]:
    """1,000 devices of 100 pods, each ill and well again every second: how often the API is told, and what it costs."""
    with Plane("--store-sync", "full") as plane:
        lab = HealthLab(plane, source, PODS_COUNT, FLAPPING // PODS_COUNT)
        writes = dict.fromkeys(lab.names, 0)

        def seen(name: str) -> None:
            writes[name] += 1

        try:
            await lab.open()
            await _flap(lab, WARM_S)
            before, lab.on_pod = _memory(plane), seen
            began = time.perf_counter()
            await _flap(lab, FLAP_S)
            took, after = time.perf_counter() - began, _memory(plane)
            ended = time.perf_counter()
            await lab.until("the latest of every device", lab.truth_is_shown)
            latest = time.perf_counter() - ended
        finally:
            await lab.close()
    most = max(writes.values()) / took
    limit = round(RATE + (BURST + 1) / took, 2)  # one may have been on its way as the time began
    growth = max(after[actor] - before[actor] for actor in NODE)
    return [
        at_most(f"1,000 {devices} flap at 1 Hz: most status changes of a pod", [most], "/s", limit),
        at_most(f"1,000 {devices} flap at 1 Hz: latest state of all shown", [latest], "s", LATEST_S),
        at_most(f"1,000 {devices} flap for {FLAP_S:g} s: most an actor of the node grew", [growth], "MB", GROWTH_MB),
    ]


async def _flap(lab: HealthLab, seconds: float) -> None:
    """LISTS_S lists a second, in each of which a share of the devices has changed; every device twice a second."""
    devices, began, share = sorted(lab.source.truth), time.perf_counter(), 2 * FLAPPING // LISTS_S
    for number in range(int(seconds * LISTS_S)):
        await asyncio.sleep(began + number / LISTS_S - time.perf_counter())
        first = number * share % FLAPPING
        for device in devices[first : first + share]:
            lab.source.set(device, not lab.source.truth[device])
        lab.source.change()


def _memory(plane: Plane) -> dict[str, float]:
    return {name: proportional_mb(actor["pid"]) for name, actor in plane.status().items()}
