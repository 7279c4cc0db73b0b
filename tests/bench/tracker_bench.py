"""Patched devices: what one patch costs over many devices, and many patches over more; CEL by the device.

CPU time of this process, so that others on the machine do not count; what the collector of garbage does is in it.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from protocols.cel.programs import compiled
from protocols.dra.decode import patch_of, slice_of
from protocols.dra.tracker.tracker import Tracker
from protocols.dra.types import Patch, Slice
from protocols.kinds import views
from protocols.kube.meta import Object
from tests.bench import cel_bench
from tests.bench.row import Row, at_most
from tests.support.dra_objects import attributes, device, patch_object, slice_object

DRIVERS, DEVICES = 10, 64
ROUNDS = 5
MANY = 10_000
ALL_MS, ONE_MS, BUILT_S, MORE_MS, SIMPLE_US, CEL_US, PATTERN_US = 100.0, 0.2, 2.0, 1.0, 2.0, 4.0, 8.0
INDEX_BYTES = 256
SELECTORS = {
    "driver": 'device.driver == "gpu3.example.com"',
    "three clauses": 'device.driver == "gpu3.example.com" && device.attributes["gpu3.example.com"].healthy '
    '&& device.attributes["ext.example.com"].numa == 2',
    "quantity": 'device.capacity["gpu3.example.com"].memory.compareTo(quantity("10Gi")) >= 0',
    "version": 'device.attributes["gpu3.example.com"].driverVersion.isGreaterThan(semver("1.2.3"))',
    "pattern": 'device.attributes["ext.example.com"].?pcieRoot.orValue("").matches("^pci[0-9]+:")',
    "map": 'device.attributes["ext.example.com"].exists(name, name == "pcieRoot")',
}


def run() -> list[Row]:
    return [*one_patch(), *_many_patches(), *_cel(), *cel_bench.evaluator_rows()]


def slices(count: int) -> list[Slice]:
    return [slice_of(slice_as_published(number)) for number in range(count)]


def slice_as_published(number: int) -> Object:
    driver = f"gpu{number % DRIVERS}.example.com"
    found = [_device(number, place) for place in range(DEVICES)]
    return slice_object(f"slice-{number}", found, driver=driver, pool=f"node-{number}", nodeName=f"node-{number}")


def _device(number: int, place: int) -> views.Device:
    """Ten attributes and two capacities, as drivers of GPUs publish them."""
    values = {
        "model": "LATEST-GPU-MODEL", "index": place, "healthy": True, "uuid": f"gpu-{number}-{place}",
        "driverVersion": "v:1.2.0", "productName": "H100", "brand": "Tesla", "architecture": "Hopper",
        "ext.example.com/numa": place % 4, "ext.example.com/pcieRoot": f"pci0000:{place % 16:02}",
    }  # fmt: skip
    return device(f"dev-{place}", values, {"memory": "80Gi", "cores": "132"})


def _patch(name: str, number: int, **filter: Any) -> Patch:
    return patch_of(patch_object(name, {"x.example.com/a": number, "x.example.com/b": "text"}, **filter))


def _tracker(found: list[Slice]) -> Tracker:
    tracker = Tracker()
    for each in found:
        tracker.put_slice(each)
    tracker.settle()
    return tracker


def _cpu(work: Callable[[], Any]) -> float:
    """Seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _put(tracker: Tracker, patch: Patch) -> Callable[[], None]:
    def work() -> None:
        tracker.put_patch(patch)
        tracker.settle()

    return work


def _gone(tracker: Tracker, name: str) -> None:
    tracker.drop_patch(name)
    tracker.settle()


def one_patch() -> list[Row]:
    """500 slices of 64 devices. Floor: the same values laid over each device's own in a bare loop."""
    tracker = _tracker(slices(500))
    everything, one, floors = [], [], []
    for number in range(ROUNDS):
        everything.append(_cpu(_put(tracker, _patch("all", number))) * 1e3)
        _gone(tracker, "all")
        floors.append(_cpu(lambda number=number: _bare(tracker, number)) * 1e3)  # type: ignore[misc]  # bound at once
    for number in range(200):
        place = {"driver": f"gpu{number % DRIVERS}.example.com", "pool": f"node-{number}", "device": "dev-7"}
        one.append(_cpu(_put(tracker, _patch("one", number, **place))) * 1e3)
        _gone(tracker, "one")
    floor = sorted(floors)[ROUNDS // 2]
    return [
        at_most("tracker: one patch for all of 32,000 devices", everything, "ms", ALL_MS, floor),
        at_most("tracker: one patched device among 32,000", one, "ms", ONE_MS),
    ]


def _bare(tracker: Tracker, number: int) -> None:
    more = attributes({"x.example.com/a": number, "x.example.com/b": "text"})
    made = [{**device.attributes, **more} for each in tracker.slices() for device in each.devices]
    made.clear()


def _many_patches() -> list[Row]:
    """64,000 devices; a third of the patches for a driver, a third for a pool, a third for one device. And what the
    devices that nobody patches cost in memory."""
    found = slices(1000)
    patches = [_patch(f"patch-{number}", number, **_filter(number)) for number in range(MANY)]
    gc.collect()
    bare = _resident()
    kept = _tracker(found)
    growth = _resident() - bare
    shared = all(each is kept.published[each.name] for each in kept.slices())
    del kept
    built, more = [], []
    for _ in range(2):
        tracker = _tracker(found)
        built.append(_cpu(lambda tracker=tracker: _all(tracker, patches)))  # type: ignore[misc]  # bound at once
        for number in range(50):
            more.append(_cpu(_put(tracker, _patch("more", number, **_filter(number * 3 + 2)))) * 1e3)
            _gone(tracker, "more")
        del tracker
    rows = [
        at_most("tracker: 10,000 patches over 64,000 devices", built, "s", BUILT_S),
        at_most("tracker: one more patch", more, "ms", MORE_MS),
    ]
    per_device = growth * 1024 / (1000 * DEVICES)
    index = at_most("tracker: index of a device; the device itself is shared", [per_device], "bytes", INDEX_BYTES)
    return [*rows, replace(index, ok=index.ok and shared)]


def _filter(number: int) -> dict[str, Any]:
    pool = number % 1000
    if number % 3 == 0:
        return {"driver": f"gpu{number % DRIVERS}.example.com"}
    if number % 3 == 1:
        return {"pool": f"node-{pool}"}
    return {"driver": f"gpu{pool % DRIVERS}.example.com", "pool": f"node-{pool}", "device": f"dev-{number % DEVICES}"}


def _all(tracker: Tracker, patches: list[Patch]) -> None:
    for patch in patches:
        tracker.put_patch(patch)
    tracker.settle()


def _resident() -> float:
    """KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4.0


def _cel() -> list[Row]:
    """Floor: the native library alone, asked for the driver's name of an input that stands ready."""
    from cel_expr_python import cel

    devices = [device for each in slices(40)[3::DRIVERS] for device in each.devices] * 4
    config = cel.NewEnvConfigFromYaml("name: floor\n")
    env = cel.NewEnv(config=config, variables={"device.driver": cel.Type.STRING})
    native = env.compile('device.driver == "gpu3.example.com"')
    ready = {"device.driver": "gpu3.example.com"}
    floor = min(_cpu(lambda: [native.eval(data=ready).value() for _ in devices]) for _ in range(ROUNDS))
    rows = []
    for name, text in SELECTORS.items():
        program = compiled(text)
        ask = program.matches
        most = SIMPLE_US if program.is_simple else PATTERN_US if name == "pattern" else CEL_US
        times = [_cpu(lambda ask=ask: [ask("gpu3.example.com", each) for each in devices]) for _ in range(ROUNDS)]  # type: ignore[misc]  # bound at once
        each = [seconds / len(devices) * 1e6 for seconds in times]
        rows.append(
            at_most(
                f"CEL: {name}, a device and selector",
                each,
                "us",
                most,
                floor / len(devices) * 1e6,
            )
        )
    return rows
