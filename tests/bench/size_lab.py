"""A control plane under a load of known size: what its processes cost meanwhile, in CPU time and private memory.

The objects are pods of 2 kB in as many namespaces as the fan-out asks for, each with its watches of pods over TLS. A
write is what a kubelet sends most: a strategic merge patch of a pod's status. Writes come at random times, since
batches depend on it.
"""

import itertools
import random
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.bench.row import Unmeasured
from tests.bench.watch_lab import (
    Peer,
    configmap,
    cpu_seconds,
    create_all,
    peer,
    put_all,
    received,
    until_applied,
    watches,
)
from tests.bench.watch_line import Options
from tests.bench.write_client import PATIENCE_S, Writer
from tests.support.apiserver_plane import Plane, running_plane

NODES = 100
LISTED_S = 8.0
"""Time for scheduler and controllers to list what they follow, and to return what they need no more."""
CONNECTIONS = 16
"""Of the writers."""
WAITS_S, PATIENT_S = 0.025, 10.0
"""A round in which an answer took longer on average is another load: on a busy machine writes wait for a core, are
taken together, and cost half."""
PATCH = (
    b"PATCH /api/v1/namespaces/%s/pods/%s/status HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/strategic-merge-patch+json\r\nContent-Length: %d\r\n\r\n"
)


class Point(NamedTuple):
    """A load: pods stored, watches, how many of them see a write, writes a second."""

    objects: int
    watchers: int
    fan_out: int
    writes: float

    @property
    def namespaces(self) -> int:
        return max(1, self.watchers // max(1, self.fan_out))


class Cost(NamedTuple):
    """CPU seconds a second and private kB, by process; CPU microseconds of the yardstick's piece meanwhile."""

    cpu: dict[str, float]
    memory: dict[str, int]
    yardstick: float
    rate: float
    """Writes a second."""
    waited: float
    """Seconds from the time of a write to its answer, on average."""


class Lab:
    """Fill a plane, open its watches, then take rounds."""

    def __init__(
        self, plane: Plane, point: Point, prefix: str = "n", others: dict[str, int] | None = None, filler: int = 0
    ) -> None:
        """`others` are further processes to measure, pid by name; `filler` are bytes by which the pods are larger."""
        self._plane, self.point, self._prefix, self._others = plane, point, prefix, others or {}
        self._filler = filler
        self._random = random.Random(point.objects)
        self._stamps = itertools.count()
        self._watches: Peer | None = None
        self.hot = 0
        """Pods that are written to, the first ones; 0: all."""
        self.written = 0
        """Writes so far: changes that the windows may hold."""

    def fill(self, first: int = 0) -> None:
        """Store the pods from number `first` on."""
        numbers = range(first, self.point.objects)
        create_all(self._plane, [(f"/registry/pods/{self._space(n)}/{pod_name(n)}", self._pod(n)) for n in numbers])
        until_applied(self._plane, self.point.objects)

    @contextmanager
    def watched(self) -> Iterator[None]:
        if not self.point.watchers:
            yield
            return
        paths = [f"/api/v1/namespaces/{self._space(n)}/pods" for n in range(self.point.namespaces)]
        now = put_all(self._plane, [("/registry/configmaps/default/now", configmap("now"))])
        options = Options(self._plane.port, str(self._plane.settings.layout.pki), paths, self.point.fan_out, now)
        with watches(options) as self._watches:
            yield

    def round(self, yardstick: Peer, seconds: float) -> Cost:
        """Write for so many seconds, again while the machine is too busy. Raises Unmeasured after PATIENT_S."""
        until, least = time.monotonic() + PATIENT_S, float("inf")
        while time.monotonic() < until:
            cost = self.any_round(yardstick, seconds)
            if cost.waited <= WAITS_S:
                return cost
            least = min(least, cost.waited)
        raise Unmeasured(f"busy machine: at {self.point.writes:g} writes/s an answer takes {1e3 * least:.0f} ms")

    def any_round(self, yardstick: Peer, seconds: float) -> Cost:
        """Write for so many seconds, however busy the machine is."""
        pids = {name: process.pid for name, process in self._plane.processes.items()} | self._others
        yardstick.ask("")
        before, began = {name: cpu_seconds(pid) for name, pid in pids.items()}, time.monotonic()
        waited = self._write(seconds)
        took = time.monotonic() - began
        spent = {name: (cpu_seconds(pid) - before[name]) / took for name, pid in pids.items()}
        memory = {name: private_kb(pid) for name, pid in pids.items()}
        return Cost(spent, memory, yardstick.ask(""), self.point.writes * seconds / took, waited)

    def delivered_bytes(self) -> float:
        """Bytes of an event as a watch reads it, of all so far."""
        assert self._watches is not None
        stats = self._watches.ask("stats")
        return float(TYPES * stats["size"] / stats["events"])

    def _write(self, seconds: float) -> float:
        """Return the seconds that an answer takes on average."""
        if not self.point.writes:
            time.sleep(seconds)
            return 0.0
        due = list(_arrivals(self._random, self.point.writes, seconds))
        had = self._watches.ask("stats")["events"] if self._watches else 0
        writers = [Writer(self._plane, self._patch) for _ in range(CONNECTIONS)]
        try:
            waited = _paced(writers, due)
        finally:
            for writer in writers:
                writer.close()
        self.written += len(due)
        if self._watches:
            received(self._watches, had + len(due) * self.point.fan_out * TYPES)
        return waited

    def _patch(self) -> bytes:
        number, stamp = self._random.randrange(self.hot or self.point.objects), next(self._stamps)
        ready = b"True" if stamp % 2 else b"False"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + stamp)).encode()
        body = b'{"status":{"conditions":[{"type":"Ready","status":"%s","lastTransitionTime":"%s"}]}}' % (ready, at)
        return PATCH % (self._space(number).encode(), pod_name(number).encode(), len(body)) + body

    def _space(self, number: int) -> str:
        return f"{self._prefix}{number % self.point.namespaces}"

    def _pod(self, number: int) -> bytes:
        return pod(number, self._space(number), self._filler)


def pod_name(number: int) -> str:
    return f"p-{number:06}"


def _arrivals(source: random.Random, rate: float, seconds: float) -> Iterator[float]:
    """Yield rate x seconds random times, in order."""
    yield from sorted(source.uniform(0, seconds) for _ in range(round(rate * seconds)))


def _paced(writers: list[Writer], due: list[float]) -> float:
    """Write at these times, or as soon as a connection is free; return the seconds from its time to an answer."""
    by_number, free, poll = {writer.number: writer for writer in writers}, list(writers), select.epoll()
    answered = 0.0
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    began, sent = time.monotonic(), 0
    while sent < len(due) or len(free) < len(writers):
        while free and sent < len(due) and began + due[sent] <= time.monotonic():
            free.pop().write()
            sent += 1
        waits = free and sent < len(due)
        pause = max(0.0, began + due[sent] - time.monotonic()) if waits else PATIENCE_S
        ready = poll.poll(pause)
        assert ready or waits, "the server is silent"
        done = [by_number[number] for number, _ in ready if by_number[number].answered()]
        answered += len(done) * (time.monotonic() - began)
        free += done
    poll.close()
    return (answered - sum(due)) / len(due)


def private_kb(pid: int) -> int:
    """Memory that the process shares with no other: not what all processes of a plane have from their forkserver."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


@contextmanager
def noded_plane() -> Iterator[Plane]:
    """A plane with the nodes of the pods, which are never found lost."""
    with running_plane(node_monitor_grace_s=86_400) as plane:
        create_all(plane, [(f"/registry/minions/{_node(at)}", _node_object(_node(at))) for at in range(NODES)])
        yield plane


def start_anew(plane: Plane, objects: int) -> None:
    """Start all processes but the store again, with scheduler and controllers, until they hold so many pods.

    A process that lists what is there keeps more memory than one that saw it come.
    """
    for name in ("watchcache", "apiserver-0", "scheduler", "controllers"):
        if name in plane.processes:
            plane.kill(name)
        plane.spawn(name)
    until_applied(plane, objects)
    time.sleep(LISTED_S)


def yardstick_of(plane: Plane) -> Any:
    return peer("size_yardstick", str(plane.settings.layout.pki))


FIRST_IP = int(ip_address("10.0.0.0"))
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled", "Ready")
TYPES = 1 + len(CONDITIONS)
"""A client of the bench counts types: one of the event, and one of each condition."""
START = "2026-01-01T00:00:00Z"


def _node(number: int) -> str:
    return f"node-{number}"


def _node_object(name: str) -> bytes:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": START}
    return msgspec.json.encode({"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status})


def pod(number: int, namespace: str = "n0", filler: int = 0) -> bytes:
    """A running pod of one container as the store keeps it: 2 kB and the filler."""
    image = "registry.example.com/team/app:1.2.3"
    account = {"name": "account", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    container = {
        "name": "main", "image": image, "command": ["serve"], "env": [{"name": "MODE", "value": "production"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent", "volumeMounts": [account],
    }  # fmt: skip
    spec = {
        "containers": [container], "nodeName": _node(number % NODES), "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
        "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": True, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority", "volumes": [{"name": "account", "emptyDir": {}}],
    }  # fmt: skip
    status = {
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": str(ip_address(FIRST_IP + number)),
        "qosClass": "Burstable", "startTime": START,
        "conditions": [{"type": condition, "status": "True", "lastTransitionTime": START} for condition in CONDITIONS],
        "containerStatuses": [{
            "name": "main", "ready": True, "restartCount": 0, "image": image, "imageID": f"sha256:{number:064x}",
            "containerID": f"containerd://{number:064x}", "started": True, "state": {"running": {"startedAt": START}},
        }],
    }  # fmt: skip
    uid = f"00000000-0000-4000-8000-{number:012x}"
    metadata = {
        "name": pod_name(number), "namespace": namespace, "uid": uid, "creationTimestamp": START,
        "labels": {"app": "web"}, "annotations": {"fill": "x" * filler},
    }  # fmt: skip
    return msgspec.json.encode(
        {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}
    )
