"""The model of `nodeplane size` against three loads that one machine carries: CPU and memory of each process.

The model's CPU is that of the machine on which its costs were measured, so it is scaled by the yardstick, which runs
beside the load and meets the same neighbours.
"""

from statistics import median

from supervisor.size.costs import YARDSTICK_US
from supervisor.size.load import SizeLoad
from supervisor.size.model import (
    KIB,
    api_cores,
    controllers_cores,
    process_memory,
    scheduler_cores,
    store_cores,
    watchcache_cores,
)
from tests.bench.row import Row, Unmeasured, missing
from tests.bench.size_lab import NODES, Cost, Lab, Point, noded_plane, pod, start_anew, yardstick_of
from tests.bench.watch_lab import Peer
from tests.support.apiserver_plane import Plane

LOADS = (Point(2_000, 50, 10, 100.0), Point(10_000, 200, 10, 100.0), Point(10_000, 200, 10, 400.0))
"""Each adds to the pods of those before it. With as many pods it has their watches, too."""
HOT = 250
"""Pods that are written to: in a full window most changes are of an object that changed before."""
WARM_S, SECONDS = 1.0, 4.0
OWN_WATCHES = 2
"""Scheduler and controllers watch pods."""
ERROR = 0.25


def run() -> list[Row]:
    with noded_plane() as plane, yardstick_of(plane) as yardstick:
        points = _Points(plane, yardstick)
        rows = [row for point in LOADS for row in points.rows(point)]
    return [_speed(points.yardsticks), *rows]


def _speed(yardsticks: list[float]) -> Row:
    name = "size: speed of this machine, for --speed"
    return Row(name, YARDSTICK_US / median(yardsticks), "x") if yardsticks else missing(name, "no load was measured")


class _Points:
    def __init__(self, plane: Plane, yardstick: Peer) -> None:
        self._plane, self._yardstick = plane, yardstick
        self._stored = self._changes = 0
        self.yardsticks: list[float] = []

    def rows(self, point: Point) -> list[Row]:
        try:
            cost = self._measured(point)
        except Unmeasured as error:
            return [missing(_name(point), str(error))]
        load = SizeLoad(
            nodes=1, objects=NODES, pods=self._stored, watchers=point.watchers, writes=cost.rate, placed=0.0, members=0,
            fan_out=point.fan_out + OWN_WATCHES, object_bytes=len(pod(0)), speed=YARDSTICK_US / cost.yardstick,
        )  # fmt: skip
        name = _name(point)
        rows = [
            _row(f"{name}: CPU, {process}", 1e3 * measured(cost.cpu, process), 1e3 * cores, "ms/s")
            for process, cores in modelled_cores(load).items()
        ]
        memory = modelled_memory(load, point.watchers, self._changes)
        return rows + [
            _row(f"{name}: memory, {process}", measured(cost.memory, process) / KIB, size / KIB**2, "MB")
            for process, size in memory.items()
        ]

    def _measured(self, point: Point) -> Cost:
        """Store what lacks to the point's pods and start the plane with all of them, then write to those pods."""
        if added := point.objects - self._stored:
            self._lab = Lab(self._plane, point._replace(objects=added), f"s{self._stored}-")
            self._lab.hot = HOT
            self._lab.fill()
            self._stored = point.objects
            start_anew(self._plane, self._stored)
        lab = self._lab
        lab.point, before = lab.point._replace(writes=point.writes), lab.written
        with lab.watched():
            lab.any_round(self._yardstick, WARM_S)
            try:
                cost = lab.round(self._yardstick, SECONDS)
            finally:
                self._changes += lab.written - before
        self.yardsticks.append(cost.yardstick)
        return cost


def measured(found: dict[str, float] | dict[str, int], process: str) -> float:
    return sum(value for name, value in found.items() if name.removesuffix("-0") == process)


def modelled_cores(load: SizeLoad) -> dict[str, float]:
    return {
        "apiserver": api_cores(load, 1),
        "watchcache": watchcache_cores(load),
        "store": store_cores(load),
        "scheduler": scheduler_cores(load),
        "controllers": controllers_cores(load),
    }


def modelled_memory(load: SizeLoad, watches: int, changes: int) -> dict[str, float]:
    """Bytes by process after so many changes: a window is not full after seconds."""
    return {
        name: process_memory(load, name, watches if name == "apiserver" else 0, changes)
        for name in modelled_cores(load)
    }


def _name(point: Point) -> str:
    return f"size: {point.objects:,} pods, {point.watchers} watches, {point.writes:g} writes/s"


def _row(name: str, value: float, model: float, unit: str) -> Row:
    return Row(name, value, unit, model, f"within {ERROR:.0%}", abs(value - model) <= ERROR * model)
