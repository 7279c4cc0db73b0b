"""Compute what a load needs from measured costs. Pure.

- Each API process applies every write to its replica; what it serves and delivers is its share.
- A machine of the control plane has a watch cache, a scheduler and controllers besides its API processes. Only one
  scheduler decides; the others follow the same objects, and so do the controllers.
- A process may use BUSY of a core: with more, requests wait for one another.
"""

import math
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from supervisor.base.errors import UsageError
from supervisor.size import costs
from supervisor.size.costs import FIGURES, LARGE, RATES, SMALL, Curve, PerObject
from supervisor.size.load import SizeLoad, checked
from supervisor.size.needs import Flow, Limit, ProcessNeed, SizeNeeds

BUSY = 0.7
FULL = 0.8
"""Share of a machine's memory that may be in use."""
WATCHES_EACH = 5000
"""Most watches of one API process: more were not measured."""
MOST_PROCESSES = 10_000
GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
GBIT = 1e9 / 8
QUOTA = 8 * GIB
"""Size of the database: the largest that etcd recommends, and the default of the embedded store."""
WINDOW_S, WINDOW_CHANGES, WINDOW_BYTES = 150.0, 102_400, 64 * MIB
"""Bounds of a window of changes (actors/watchcache/cache/window.py): twice 75 s, entries, bytes before and after."""
RECENT_CHANGES, RECENT_BYTES = 4096, 16 * MIB
"""Changes that the embedded store retains in memory (actors/store/model/options.py)."""
INTERVALS = 2
"""Intervals of compaction that etcd's history covers at most."""
HISTORY_S, HISTORY_LEAST, HISTORY_MOST = 600.0, 20_000, 100_000
"""History of the embedded store: seconds, and the bounds of its revisions (actors/store/model/options.py)."""
LOG_ENTRIES, LOG_FILES_BYTES = 105_000, 5 * 64 * MIB
"""etcd: entries of the log in memory (--snapshot-count and those kept for slow followers), files of the log."""
LEASE_S, LEASE_BYTES, LEASE_WATCHES = 10.0, 780, 1
DEVICES_A_SLICE = 32
PACKET, HEADERS = 1448, 66
"""Bytes of data in a full packet, and of its Ethernet, IP and TCP headers."""


def needs(load: SizeLoad) -> SizeNeeds:
    """Return what the load needs. Raises UsageError for a load that nothing carries, in one line."""
    checked(load)
    processes = _api_processes(load)
    machines = _machines(load, processes)
    listed = list(_processes(load, processes, machines))
    disk = disk_of(load)
    limits = sorted(_limits(load, machines, listed, disk.size), key=lambda limit: -limit.share)
    return SizeNeeds(
        load=load,
        fits=limits[0].share <= 1,
        machines=machines,
        api_processes=processes,
        processes=listed,
        cores=sum(process.cores for process in listed),
        memory=sum(process.memory for process in listed),
        network=list(_network(load, machines)),
        etcd_members=load.members,
        disk=disk.size,
        disk_bytes_per_second=disk.written,
        fsyncs_per_second=written(load),
        limits=limits,
    )


# rates


def leases(load: SizeLoad) -> float:
    """Return the renewals of leases a second: each node's every 10 s."""
    return load.nodes / LEASE_S


def written(load: SizeLoad) -> float:
    """Writes a second, leases included."""
    return load.writes + leases(load)


def placed(load: SizeLoad) -> float:
    """Return the pods placed a second; by default as many as the writes allow."""
    return load.writes / FIGURES["writes of a pod's life"].value if load.placed is None else load.placed


def slices(load: SizeLoad) -> int:
    """Return the ResourceSlices of all devices."""
    return math.ceil(load.devices / DEVICES_A_SLICE)


# CPU


def cores_at(curve: Curve, rate: float, speed: float = 1.0) -> float:
    """Return the cores that a rate of writes takes: linear between the measured rates.

    Outside of them a write costs what it does at the nearest one. No rate takes less than a lower one, though batches
    make it so where they begin.
    """
    rates = RATES[: len(curve.us)]
    spent = [*accumulate((at * us / 1e6 for at, us in zip(rates, curve.us, strict=True)), max)]
    after = bisect(rates, rate)
    if after in (0, len(rates)):
        nearest = max(0, after - 1)
        return rate * spent[nearest] / rates[nearest] / speed
    part = (rate - rates[after - 1]) / (rates[after] - rates[after - 1])
    return (spent[after - 1] + (spent[after] - spent[after - 1]) * part) / speed


def api_cores(load: SizeLoad, processes: int) -> float:
    """Return the cores of each API process."""
    engine = "etcd" if load.members else "SQLite"
    served = cores_at(costs.CURVES[f"apiserver serves a write, {engine}"], written(load) / processes, load.speed)
    watching = 1 - (1 - 1 / processes) ** load.fan_out
    first = load.writes * watching * FIGURES["first watch of a change, in each apiserver"].value
    sent = (load.writes * load.fan_out + leases(load) * LEASE_WATCHES) / processes
    sent_us = sent * FIGURES["delivery to a watch"].value
    return applied(load) + served + (first + sent_us) / 1e6 / load.speed


def applied(load: SizeLoad) -> float:
    """Return the cores that every API process needs, however many there are."""
    return cores_at(costs.CURVES["apiserver applies a write"], written(load), load.speed)


def _api_processes(load: SizeLoad) -> int:
    """Return the least number of API processes. CPU of each falls with their number."""
    if applied(load) >= BUSY or api_cores(load, MOST_PROCESSES) > BUSY:
        raise UsageError(
            f"no number of API processes carries {written(load):,.0f} writes/s: each applies every write, which takes "
            f"{applied(load):.2f} of a core; use fewer --writes or a higher --speed"
        )
    low, high = max(1, math.ceil(load.watchers / WATCHES_EACH)), MOST_PROCESSES
    if low >= high:
        raise UsageError(f"{load.watchers:,} watches need {low:,} API processes, more than {high:,}")
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if api_cores(load, middle) > BUSY else (low, middle)
    return low


def watchcache_cores(load: SizeLoad) -> float:
    """Return the cores of each watch cache, which follows every write."""
    engine = "etcd" if load.members else "SQLite"
    return cores_at(costs.CURVES[f"watchcache, {engine}"], written(load), load.speed)


def scheduler_cores(load: SizeLoad, leads: bool = True) -> float:
    """Return the cores of a scheduler; one that stands by follows what it sees, but places nothing."""
    seen = cores_at(costs.CURVES["scheduler sees a change"], load.writes, load.speed)
    pod = FIGURES["pod with a claim placed" if load.devices else "pod placed"].value
    decided = placed(load) * pod + load.patches * load.devices * FIGURES["patch, each device"].value
    return seen + (decided / 1e6 / load.speed if leads else 0.0)


def controllers_cores(load: SizeLoad) -> float:
    """Return the cores of the controllers of one machine."""
    return cores_at(costs.CURVES["controllers see a change"], written(load), load.speed)


def store_cores(load: SizeLoad) -> float:
    """Return those of the embedded store, or of each member of etcd as if it led."""
    name = "etcd, leader of three members" if load.members else "store"
    return cores_at(costs.CURVES[name], written(load), load.speed)


# memory


def bytes_for(cost: PerObject, size: float, count: float = 1.0) -> float:
    """Return the cost of so many objects of `size` bytes in all: a part for each of them, and one for their bytes."""
    by_byte = (cost.large - cost.small) / (LARGE - SMALL)
    return count * max(0.0, cost.small - by_byte * SMALL) + size * by_byte


def _window(rate: float, size: int) -> float:
    """Return the bytes of the objects changed in a window; those before and after a change are bounded together."""
    return min(min(rate * WINDOW_S, WINDOW_CHANGES) * size, WINDOW_BYTES / 2)


def process_memory(load: SizeLoad, process: str, watches: float = 0.0, changes: float | None = None) -> int:
    """Return the bytes of a process; `changes` of objects that its windows hold, by default those of steady writes."""
    count = load.pods + load.nodes + load.objects
    size = count * load.object_bytes
    devices = FIGURES["device in the scheduler"].value * load.devices
    if process != "scheduler":
        devices = 0.0
        count += load.nodes + slices(load)
        size += load.nodes * LEASE_BYTES + int(load.devices * FIGURES["device in a slice"].value)
    memory = costs.ALONE_KB[process].value * KIB + bytes_for(costs.OBJECTS[process], size, count)
    memory += devices + watches * FIGURES["watch"].value
    return int(memory + _changes_memory(load, process, changes))


def _changes_memory(load: SizeLoad, process: str, changes: float | None) -> float:
    if process not in costs.CHANGES:
        return 0.0
    if process == "store":
        recent = min(RECENT_CHANGES, WINDOW_S * written(load) if changes is None else changes)
        changed = min(recent * load.object_bytes, RECENT_BYTES)
    elif changes is None:
        changed = sum(_window(rate, size) for rate, size in _streams(load))
    else:
        changed = changes * load.object_bytes
    return changed * costs.CHANGES[process].value


def etcd_memory(load: SizeLoad) -> int:
    """Return private memory: the log since the last snapshot of it, as if no entry were a lease.

    The database is mapped, so it is page cache.
    """
    logged = LOG_ENTRIES * load.object_bytes * FIGURES["etcd memory, each byte logged"].value
    return int(costs.ALONE_KB["etcd"].value * KIB + logged)


# machines


class _Machine(NamedTuple):
    """Needs of a control plane's machine besides its API processes, and those of all API processes."""

    cores: float
    memory: float
    api_cores: float
    api_memory: float


def _shares(load: SizeLoad, processes: int) -> _Machine:
    others = ("watchcache", "scheduler", "controllers", *(() if load.members else ("store",)))
    memory = sum(process_memory(load, name) for name in others) + 2 * _cel_memory()
    cores = watchcache_cores(load) + scheduler_cores(load) + controllers_cores(load)
    cores += 0.0 if load.members else store_cores(load)
    of_api = process_memory(load, "apiserver") + _cel_memory()
    watches = load.watchers * FIGURES["watch"].value
    return _Machine(cores, memory, processes * api_cores(load, processes), processes * of_api + watches)


def _cel_memory() -> float:
    return costs.ALONE_KB["cel"].value * KIB


def _machines(load: SizeLoad, processes: int) -> int:
    """Return the least number of machines that carry the API processes; at most one for each of them."""
    if not load.members:
        return 1
    share = _shares(load, processes)
    cores, memory = BUSY * load.cores - share.cores, FULL * load.memory_gib * GIB - share.memory
    if cores <= 0 or memory <= 0:
        return processes
    sent = sum(flow.bytes_per_second for flow in _client_flows(load)) / (BUSY * load.link_gbit * GBIT)
    return min(processes, max(1, math.ceil(max(share.api_cores / cores, share.api_memory / memory, sent))))


def _processes(load: SizeLoad, processes: int, machines: int) -> Iterator[ProcessNeed]:
    cores = api_cores(load, processes)
    memory = process_memory(load, "apiserver", load.watchers / processes)
    yield _need("apiserver", processes, cores, memory)
    yield _need("watchcache", machines, watchcache_cores(load), process_memory(load, "watchcache"))
    leads, follows = scheduler_cores(load), scheduler_cores(load, leads=False)
    memory = process_memory(load, "scheduler")
    total = leads + (machines - 1) * follows
    yield ProcessNeed("scheduler", machines, leads, total, memory, machines * memory)
    yield _need("controllers", machines, controllers_cores(load), process_memory(load, "controllers"))
    yield _need("cel", processes + 2 * machines, 0.0, int(_cel_memory()))
    if load.members:
        yield _need("etcd", load.members, store_cores(load), etcd_memory(load))
    else:
        yield _need("store", 1, store_cores(load), process_memory(load, "store"))


def _need(name: str, count: int, cores: float, memory: int) -> ProcessNeed:
    return ProcessNeed(name, count, cores, count * cores, memory, count * memory)


# network and disk


def on_wire(size: float) -> float:
    """Return the bytes of a message with the headers of its packets."""
    return size + math.ceil(size / PACKET) * HEADERS


def _client_flows(load: SizeLoad) -> Iterator[Flow]:
    beside = FIGURES["delivery beside the object"].value
    sent = load.writes * load.fan_out * on_wire(load.object_bytes + beside)
    sent += leases(load) * LEASE_WATCHES * on_wire(LEASE_BYTES + beside)
    yield Flow("apiserver to watches", sent)
    answered = load.writes * on_wire(load.object_bytes + beside) + leases(load) * on_wire(LEASE_BYTES + beside)
    yield Flow("apiserver to writers", answered)


def _network(load: SizeLoad, machines: int) -> Iterator[Flow]:
    yield from _client_flows(load)
    if not load.members:
        return
    followers = load.members - 1
    yield Flow("apiserver to etcd", _etcd_flow(load, 1, "etcd request beside the object"))
    yield Flow("etcd to watchcaches", machines * _etcd_flow(load, 2, "etcd event beside both objects"))
    yield Flow("etcd leader to followers", followers * _etcd_flow(load, 1, "etcd log entry beside the object"))


def _etcd_flow(load: SizeLoad, objects: int, beside: str) -> float:
    """Return the bytes a second of a message with so many objects for each write."""
    return sum(rate * on_wire(objects * size + FIGURES[beside].value) for rate, size in _streams(load))


def _streams(load: SizeLoad) -> tuple[tuple[float, int], ...]:
    """Return rate and size of the writes, and of the leases."""
    return (load.writes, load.object_bytes), (leases(load), LEASE_BYTES)


class Disk(NamedTuple):
    """Use of a disk."""

    size: int
    """Bytes of the database and the log."""
    written: float
    """Bytes a second."""


def disk_of(load: SizeLoad) -> Disk:
    """Return the disk of each member, or of the embedded store."""
    kind = "etcd" if load.members else "store"
    stored = (load.pods + load.nodes + load.objects) * load.object_bytes + load.nodes * LEASE_BYTES
    stored += int(load.devices * FIGURES["device in a slice"].value)
    database = (stored + _history(load)) * FIGURES[f"{kind} database, each byte of an object"].value
    disk = costs.DISK[kind]
    handed = sum(bytes_for(disk, rate * size, rate) for rate, size in _streams(load))
    return Disk(int(database + (LOG_FILES_BYTES if load.members else 0)), handed)


def _history(load: SizeLoad) -> float:
    """Return the bytes of the objects that the history holds."""
    if load.members:
        return INTERVALS * load.compaction_interval * sum(rate * size for rate, size in _streams(load))
    revisions = min(max(HISTORY_LEAST, written(load) * HISTORY_S), HISTORY_MOST)
    return revisions * load.object_bytes


# limits


def _limits(load: SizeLoad, machines: int, listed: list[ProcessNeed], disk: int) -> Iterator[Limit]:
    by_name = {process.name: process for process in listed}
    yield Limit("apiserver: every process applies every write", applied(load) / BUSY)
    for name in ("watchcache", "scheduler", "controllers", *(() if load.members else ("store",))):
        yield Limit(f"{name}: one process, one core", by_name[name].cores_each / BUSY)
    if load.members:
        yield Limit("etcd: cores of the leader's machine", by_name["etcd"].cores_each / (BUSY * load.cores))
    yield Limit(f"database: {QUOTA // GIB} GiB", disk / QUOTA)
    share = _shares(load, by_name["apiserver"].count)
    cores = share.cores + share.api_cores / machines
    yield Limit("cores of a machine", cores / (BUSY * load.cores))
    memory = share.memory + share.api_memory / machines
    yield Limit("memory of a machine", memory / (FULL * load.memory_gib * GIB))
    sent = sum(flow.bytes_per_second for flow in _client_flows(load)) / machines
    yield Limit("network of a machine", sent / (BUSY * load.link_gbit * GBIT))
