"""Measure the costs on which `nodeplane size` stands: `python -m tests.bench.size_costs [NAME ...]`, five minutes.

Prints each cost as supervisor/size/costs.py has it. CPU is in microseconds on a machine on which a piece of the
yardstick's work takes YARDSTICK_US, so that two runs on one machine, busy or not, print about the same.
"""

import asyncio
import json
import shutil
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import msgspec
import uvloop

from protocols.kinds.table import PODS as PODS_KIND
from protocols.kubeclient.informer import Informer, InformerOptions
from supervisor.size.costs import FIGURES, RATES, YARDSTICK_US
from tests.bench import tracker_bench
from tests.bench.etcd_bench import plane_on
from tests.bench.plane_bench import loop_pod
from tests.bench.pods_bench import write_pods
from tests.bench.pods_load import HOLLOW
from tests.bench.row import Unmeasured
from tests.bench.scheduler_world import Bindings, Written, client_of, create_each, slim, thing, world
from tests.bench.scheduler_world import pod as claiming
from tests.bench.size_lab import Cost, Lab, Point, noded_plane, pod, pod_name, private_kb, start_anew, yardstick_of
from tests.bench.watch_lab import Peer, cpu_seconds, create_all, put_all
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.etcd_cluster import Cluster, cluster
from tests.support.plane import Plane as WholePlane
from tests.support.plane_client import read

PODS, SECONDS, ROUNDS = 2000, 4.0, 3
NODES, DEVICES, PLACED, LIVES, SLICES = 500, 8, 400, 60, 300
TOGETHER = 20
"""Slices that fit into a request of the store."""
PATCHED = 32_000
"""Devices of tracker_bench.one_patch."""
LEASES = "apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
FEW, MANY, FILLERS = 500, 8000, (0, 4000)
"""Pods that are changed and stored for a measurement of memory; bytes of annotations that they have besides."""
FAN = 100
WATCHED = ((0, 0), (1, 1), (1000, FAN))
"""Watches, and how many of them see a write."""
FOLLOWERS = ("scheduler", "controllers")
PROCESSES = ("apiserver-0", "watchcache", "store", *FOLLOWERS)
FIRST, DELIVERY = "first watch of a change, in each apiserver", "delivery to a watch"
Curve = dict[float, float]


def per_write(cost: Cost, process: str) -> float:
    return 1e6 * cost.cpu[process] / cost.rate * YARDSTICK_US / cost.yardstick


def show(name: str, curve: Curve | float) -> None:
    figures = curve if isinstance(curve, dict) else {0.0: curve}
    print(f"{name:32}", " ".join(f"{at:g}: {value:.1f}" for at, value in figures.items()), flush=True)


def curves(lab: Lab, yardstick: Peer, processes: tuple[str, ...]) -> dict[str, Curve]:
    """CPU of a write by process and rate, up to the highest rate that the machine carries."""
    found: dict[str, Curve] = {name: {} for name in processes}
    lab.any_round(yardstick, SECONDS)
    for rate in RATES:
        lab.point = lab.point._replace(writes=rate)
        try:
            rounds = [lab.round(yardstick, SECONDS / 2) for _ in range(ROUNDS)]
        except Unmeasured as error:
            print(error, file=sys.stderr, flush=True)
            continue
        for name in processes:
            found[name][rate] = median(per_write(cost, name) for cost in rounds)
    return found


def embedded() -> None:
    """A write on a whole plane with SQLite, by process, and what an API process that did not serve it pays."""
    with noded_plane() as plane, yardstick_of(plane) as yardstick:
        lab = Lab(plane, Point(PODS, 0, 1, 100.0))
        lab.fill()
        start_anew(plane, PODS)
        found = curves(lab, yardstick, PROCESSES)
        for name, curve in found.items():
            show(f"sqlite {name}", curve)
        for name in FOLLOWERS:
            plane.kill(name)
        applied = {rate: _applied(plane, yardstick, rate) for rate in RATES}
        show("apply", applied)
        told = FIGURES[FIRST].value + len(FOLLOWERS) * FIGURES[DELIVERY].value
        show("serve", {rate: us - applied[rate] - told for rate, us in found["apiserver-0"].items()})
        _disk_bytes(plane, yardstick, "store", plane.processes["store"].pid)


def _disk_bytes(plane: Plane, yardstick: Peer, name: str, pid: int) -> None:
    """Bytes that a process hands to the disk for each write, at 200 writes a second."""
    for filler in FILLERS:
        lab = Lab(plane, Point(PODS // 4, 0, 1, 200.0), f"disk{filler}", filler=filler)
        lab.fill()
        before = _handed(pid)
        lab.any_round(yardstick, SECONDS)
        size = len(pod(0, filler=filler))
        show(f"{name} disk, bytes a write of {size} bytes", (_handed(pid) - before) / lab.written)


def _handed(pid: int) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))


def _applied(plane: Plane, yardstick: Peer, rate: float) -> float:
    numbers = range(round(rate * SECONDS))
    pairs = [(f"/registry/pods/n0/{pod_name(n % PODS)}", pod(n % PODS, filler=n % 2)) for n in numbers]
    pid = plane.processes["apiserver-0"].pid
    yardstick.ask("")
    before = cpu_seconds(pid)
    put_all(plane, pairs, rate)
    return 1e6 * (cpu_seconds(pid) - before) / len(pairs) * YARDSTICK_US / float(yardstick.ask(""))


def deliveries() -> None:
    """The first watch of a change, and each further one, over TLS; bytes and memory of a watch."""
    with running_plane() as plane, yardstick_of(plane) as yardstick:
        found: dict[int, list[float]] = {}
        for _ in range(3):
            for watchers, fan in WATCHED:
                lab = Lab(plane, Point(PODS // 10, watchers, fan, 100.0), f"f{time.monotonic_ns()}-")
                lab.fill()
                pid = plane.processes["apiserver-0"].pid
                before = private_kb(pid)
                with lab.watched():
                    opened = private_kb(pid)
                    lab.any_round(yardstick, 1.0)
                    found.setdefault(fan, []).append(per_write(lab.round(yardstick, SECONDS / 2), "apiserver-0"))
                    size = lab.delivered_bytes() if fan else 0.0
        show("first delivery", median(found[1]) - median(found[0]))
        show("delivery", (median(found[FAN]) - median(found[1])) / (FAN - 1))
        show("bytes of a delivery beside the object", size - len(pod(0)))
        show("watch, bytes", 1024 * (opened - before) / WATCHED[-1][0])


def etcd() -> None:
    """The same on three members of etcd with TLS; of the members the one that costs most, which leads."""
    with _three() as members, plane_on(members) as plane, yardstick_of(plane) as yardstick:
        pids = {f"etcd-{number}": pid for number, pid in enumerate(members.pids)}
        lab = Lab(plane, Point(PODS, 0, 1, 100.0), others=pids)
        lab.fill()
        show("etcd alone, kB", max(map(private_kb, members.pids)))
        found = curves(lab, yardstick, ("watchcache", "apiserver-0", *pids))
        leads = max(pids, key=lambda name: sum(found[name].values()))
        for name in ("watchcache", "apiserver-0", leads):
            show(f"etcd {name}", found[name])
        _disk_bytes(plane, yardstick, "etcd", pids[leads])
        show("etcd bytes a write, private", _grown(lab, yardstick, members))


def _grown(lab: Lab, yardstick: Peer, members: Cluster) -> float:
    """Private bytes of a member for each write since its last snapshot of the log."""
    before, written = max(map(private_kb, members.pids)), lab.written
    lab.point = lab.point._replace(writes=400.0)
    lab.any_round(yardstick, SECONDS)
    return 1024 * (max(map(private_kb, members.pids)) - before) / (lab.written - written)


@contextmanager
def _three(tls: bool = True) -> Iterator[Cluster]:
    binary = shutil.which("etcd")
    assert binary, "etcd is not installed (Debian: apt-get install etcd-server)"
    with cluster(binary, members=3, tls=tls) as members:
        yield members


COUNTED = {
    "etcd_disk_wal_write_bytes_total": "written to the log of the leader",
    "etcd_mvcc_db_total_size_in_bytes": "added to its database",
    "etcd_network_peer_sent_bytes_total": "sent to its two followers",
    "etcd_network_client_grpc_received_bytes_total": "received from API servers, all members",
    "etcd_network_client_grpc_sent_bytes_total": "sent to a watch cache, all members",
}


def placed() -> None:
    """CPU of the scheduler for a pod, without and with a claim for a device."""
    with running_plane() as plane, yardstick_of(plane) as yardstick:
        plane.spawn("scheduler")
        uvloop.run(_placed(plane, yardstick))


async def _placed(plane: Plane, yardstick: Peer) -> None:
    client, seen = client_of(plane), Bindings()
    await client.start()
    watch = asyncio.create_task(Informer(client, PODS_KIND, InformerOptions(keep=slim), seen).run())
    try:
        await create_each(client, world(NODES, DEVICES, leases=False))
        for kind in ("warm", "plain", "claim"):
            seen.expect(PLACED)
            yardstick.ask("")
            before = cpu_seconds(plane.processes["scheduler"].pid)
            await create_each(client, _placed_pods(kind))
            await asyncio.wait_for(seen.done.wait(), 120.0)
            spent = cpu_seconds(plane.processes["scheduler"].pid) - before
            show(f"placed, {kind}", 1e6 * spent / PLACED * YARDSTICK_US / yardstick.ask(""))
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await client.close()


def _placed_pods(kind: str) -> Written:
    for number in range(PLACED):
        if kind == "claim":
            yield from claiming(f"{kind}-{number}")
        else:
            yield PODS_KIND, thing(PODS_KIND, f"{kind}-{number}", {"containers": [{"name": "main", "image": "a:1"}]})


def devices() -> None:
    """A device in a slice, in the scheduler's memory, and under a patch that applies to all."""
    with noded_plane() as plane, yardstick_of(plane) as yardstick:
        start_anew(plane, 0)
        before = private_kb(plane.processes["scheduler"].pid)
        made = [(f"/registry/resourceslices/s-{number}", _stored_slice(number)) for number in range(SLICES)]
        for first in range(0, SLICES, TOGETHER):
            create_all(plane, made[first : first + TOGETHER])
        start_anew(plane, 0)
        grown = 1024 * (private_kb(plane.processes["scheduler"].pid) - before)
        count = SLICES * tracker_bench.DEVICES
        show("device in a slice, bytes", sum(len(value) for _, value in made) / count)
        show("device in the scheduler, bytes", grown / count)
        yardstick.ask("")
        patched, _ = (row.value or 0.0 for row in tracker_bench.one_patch())
        show("patch, each device", 1e3 * patched / PATCHED * YARDSTICK_US / yardstick.ask(""))


def _stored_slice(number: int) -> bytes:
    found = tracker_bench.slice_as_published(number)
    identity = {"uid": f"uid-{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return msgspec.json.encode({**found, "metadata": {**found["metadata"], **identity}})


def life() -> None:
    """Writes of a pod from its creation until it is gone, on a plane with a node; sizes of what that stores."""
    with WholePlane() as plane:
        plane.apply(loop_pod("sized"))
        plane.pod_ready("sized")
        (node,) = (each["metadata"]["name"] for each in plane.list("node", ""))
        for path in ("api/v1/namespaces/default/pods/sized", f"{LEASES}/{node}"):
            show(f"bytes of {path.rpartition('/')[0]}", len(read(plane.root, f"/{path}")))
        time.sleep(5.0)
        before = _revision(plane)
        names = [f"life-{number}" for number in range(LIVES)]
        asyncio.run(write_pods(plane, names, HOLLOW))
        for name in names:
            plane.pod_ready(name)
        time.sleep(5.0)
        asyncio.run(write_pods(plane, names, None))
        time.sleep(10.0)
        show("writes of a pod's life", (_revision(plane) - before) / LIVES)


def _revision(plane: WholePlane) -> int:
    listed = json.loads(read(plane.root, "/api/v1/namespaces/default/configmaps?limit=1"))
    return int(listed["metadata"]["resourceVersion"])


def traffic() -> None:
    """Bytes of a write at etcd, by its own metrics."""
    with _three(tls=False) as members, plane_on(members) as plane, yardstick_of(plane) as yardstick:
        lab = Lab(plane, Point(PODS, 0, 1, 100.0))
        lab.fill()
        lab.any_round(yardstick, 1.0)
        before, written = _counters(members), lab.written
        lab.any_round(yardstick, SECONDS)
        after, writes = _counters(members), lab.written - written
    for name, meaning in COUNTED.items():
        grown = [later[name] - earlier[name] for earlier, later in zip(before, after, strict=True)]
        show(f"etcd {meaning}", (sum(grown) if "all" in meaning else max(grown)) / writes)
    show("bytes of the object", len(pod(0)))


def _counters(members: Cluster) -> list[dict[str, float]]:
    """By member and name, labels added up."""
    found = []
    for endpoint in members.endpoints:
        with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        values = dict.fromkeys(COUNTED, 0.0)
        for words in (line.split() for line in lines if not line.startswith("#")):
            name = words[0].partition("{")[0]
            if name in values:
                values[name] += float(words[-1])
        found.append(values)
    return found


def memory() -> None:
    """Private memory by process: alone, by object and by change in the windows; for small and large objects."""
    for filler in FILLERS:
        _memory(filler)


def _memory(filler: int) -> None:
    """Alone, with many objects, and with few of which many changes are in the windows."""
    size = len(pod(0, filler=filler))
    with noded_plane() as plane, yardstick_of(plane) as yardstick:
        start_anew(plane, 0)
        alone = _sizes(plane)
        lab = Lab(plane, Point(FEW, 100, 10, 400.0), filler=filler)
        lab.fill()
        with lab.watched():
            lab.any_round(yardstick, 1.0)
            before, written = _sizes(plane), lab.written
            lab.any_round(yardstick, SECONDS)
            changed, changes = _sizes(plane), lab.written - written
    with noded_plane() as plane:
        Lab(plane, Point(MANY, 0, 1, 0.0), filler=filler).fill()
        start_anew(plane, MANY)
        stored = _sizes(plane)
        file = sum(path.stat().st_size for path in (plane.root / "store").glob("objects.sqlite"))
    for name in alone:
        show(f"{size} bytes: {name} alone, kB", alone[name])
        show(f"{size} bytes: {name} object, bytes", 1024 * (stored[name] - alone[name]) / MANY)
        show(f"{size} bytes: {name} change, bytes", 1024 * (changed[name] - before[name]) / changes)
    show(f"{size} bytes: file of the embedded store, object, bytes", file / MANY)


def _sizes(plane: Plane) -> dict[str, int]:
    return {name: private_kb(process.pid) for name, process in plane.processes.items()}


PARTS = {each.__name__: each for each in (embedded, deliveries, etcd, placed, devices, life, traffic, memory)}


def main(names: list[str]) -> None:
    for name in names or PARTS:
        began = time.monotonic()
        PARTS[name]()
        print(f"{name} took {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
