"""The measured costs from which `nodeplane size` computes: one table, each row with the command that measures it.

All CPU is that of one machine on one day, brought to a common speed: microseconds where a piece of the yardstick's
work (tests/bench/size_yardstick.py) takes YARDSTICK_US. Memory is private memory. `docs/explanation/scale.md` shows
the table (`make docs`), and the bench `size` compares what follows from it with measured loads.
"""

from typing import NamedTuple

MACHINE, DATE = "two shared cores, Debian 12, Python 3.11, etcd 3.4.23", "2026-11-29"
YARDSTICK_US = 13.0
RATES = (50.0, 100.0, 200.0, 400.0, 800.0)
"""Writes a second at which the CPU of a write is measured."""
SMALL, LARGE = 1932, 5932
"""Bytes of the objects whose memory is measured."""
COSTS_COMMAND = "python -m tests.bench.size_costs"


class Curve(NamedTuple):
    """CPU of one write by the rate of writes; rarer writes cost more, since each wakes a process with cold caches."""

    us: tuple[float, ...]
    """At each of RATES; a shorter one ends at the highest rate that the machine carried."""
    command: str


class PerObject(NamedTuple):
    """Bytes of memory for something that holds an object, by the size of the object."""

    small: float
    """For an object of SMALL bytes."""
    large: float
    """For one of LARGE bytes."""
    command: str


class Figure(NamedTuple):
    """One measured cost that depends on nothing else."""

    value: float
    unit: str
    command: str


DEVICES = f"{COSTS_COMMAND} devices"
EMBEDDED = f"{COSTS_COMMAND} embedded"
DELIVERIES, ETCD, MEMORY = f"{COSTS_COMMAND} deliveries", f"{COSTS_COMMAND} etcd", f"{COSTS_COMMAND} memory"
TRAFFIC, PLACED, LIFE = f"{COSTS_COMMAND} traffic", f"{COSTS_COMMAND} placed", f"{COSTS_COMMAND} life"

CURVES = {
    "apiserver applies a write": Curve((340.0, 190.0, 146.0, 121.0, 51.0), EMBEDDED),
    "apiserver serves a write, SQLite": Curve((1506.0, 1181.0, 918.0, 770.0, 734.0), EMBEDDED),
    "apiserver serves a write, etcd": Curve((1560.0, 1213.0, 902.0, 765.0), ETCD),
    "watchcache, SQLite": Curve((331.0, 284.0, 222.0, 187.0, 72.0), EMBEDDED),
    "watchcache, etcd": Curve((411.0, 328.0, 250.0, 205.0), ETCD),
    "store": Curve((736.0, 624.0, 530.0, 446.0, 395.0), EMBEDDED),
    "etcd, leader of three members": Curve((1378.0, 994.0, 720.0, 600.0), ETCD),
    "scheduler sees a change": Curve((308.0, 252.0, 207.0, 162.0, 94.0), EMBEDDED),
    "controllers see a change": Curve((342.0, 278.0, 204.0, 158.0, 88.0), EMBEDDED),
}
OBJECTS = {
    "apiserver": PerObject(6721, 18969, MEMORY),
    "watchcache": PerObject(4860, 12911, MEMORY),
    "store": PerObject(3513, 7152, MEMORY),
    "scheduler": PerObject(9974, 10077, MEMORY),
    "controllers": PerObject(2554, 2821, MEMORY),
}
CHANGES = {
    "apiserver": Figure(2.94, "bytes", MEMORY),
    "watchcache": Figure(5.13, "bytes", MEMORY),
    "store": Figure(0.85, "bytes", MEMORY),
}
"""Memory for each byte of an object that changed; that of SMALL objects, which is the higher one."""
DISK = {
    "store": PerObject(21156, 29005, EMBEDDED),
    "etcd": PerObject(10645, 21586, ETCD),
}
ALONE_KB = {
    "apiserver": Figure(25956, "kB", MEMORY),
    "watchcache": Figure(8364, "kB", MEMORY),
    "store": Figure(10968, "kB", MEMORY),
    "scheduler": Figure(11596, "kB", MEMORY),
    "controllers": Figure(16096, "kB", MEMORY),
    "cel": Figure(5168, "kB", MEMORY),
    "etcd": Figure(34712, "kB", ETCD),
}
FIGURES = {
    "first watch of a change, in each apiserver": Figure(58.0, "us", DELIVERIES),
    "delivery to a watch": Figure(14.6, "us", DELIVERIES),
    "watch": Figure(36_850.0, "bytes", "nodeplane bench idle-watch"),
    "delivery beside the object": Figure(390.0, "bytes", DELIVERIES),
    "pod placed": Figure(636.0, "us", PLACED),
    "pod with a claim placed": Figure(2357.0, "us", PLACED),
    "writes of a pod's life": Figure(13.0, "", LIFE),
    "patch, each device": Figure(1.0, "us", DEVICES),
    "device in the scheduler": Figure(5022.0, "bytes", DEVICES),
    "device in a slice": Figure(426.0, "bytes", DEVICES),
    "etcd memory, each byte logged": Figure(5.2, "bytes", ETCD),
    "etcd request beside the object": Figure(230.0, "bytes", TRAFFIC),
    "etcd event beside both objects": Figure(275.0, "bytes", TRAFFIC),
    "etcd log entry beside the object": Figure(370.0, "bytes", TRAFFIC),
    "etcd database, each byte of an object": Figure(2.24, "bytes", TRAFFIC),
    "store database, each byte of an object": Figure(1.2, "bytes", MEMORY),
}
