"""A pod, a runtime in memory, and a deps for podworker's tests."""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path

from actors.podworker.model.dependencies import Dependencies, ImageFound, NodeInfo
from actors.podworker.pods.probes.metrics import ProbeMetrics
from protocols.bus import BusError, NotFound, Unavailable, error_for
from protocols.messages.devices import DEVICES_ANNOTATION, AdmitPod, AdmittedPod, ContainerGrant
from protocols.messages.health import PodHeld
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus

UID = "uid-1"


def pod(*containers, inits=(), policy="Always", uid=UID, status=None, metadata=None, **spec):
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": uid, "resourceVersion": "1", **(metadata or {})},
        "spec": {
            "restartPolicy": policy,
            "containers": list(containers) or [container("a")],
            "nodeName": "n1",
            **({"initContainers": list(inits)} if inits else {}),
            **spec,
        },
        "status": status or {"phase": "Pending"},
    }


def container(name, image="img:1", **more):
    return {"name": name, "image": image, **more}


def sidecar(name):
    return container(name, restartPolicy="Always")


class FakeRuntime:
    """In memory, strict like a real one: names stay reserved, only a created container starts."""

    def __init__(self):
        self._last = 0
        self.sandboxes = {}
        self.containers = {}
        self.calls = []
        self.fail = {}
        self.exit_at_once = {}
        self.answers = {}
        self.ignore_term = set()
        self.exit_on_stop = {}
        self.most_running = {}
        self._ids = itertools.count(1)
        self.changed = lambda uid: None
        self.absent = set()
        self.auths = []

    def now(self):
        self._last = max(self._last + 1, time.time_ns())
        return self._last

    async def run_sandbox(self, config, handler):
        self._called("run_sandbox", config.metadata.attempt)
        self.handler = handler
        for sandbox in self.sandboxes.values():
            if sandbox.uid == config.metadata.uid and sandbox.attempt == config.metadata.attempt:
                raise error_for("UNKNOWN", "name is reserved")
        box = Box(f"s{next(self._ids)}", config.metadata.uid, config.metadata.attempt, self.now())
        self.sandboxes[box.id] = box
        self.changed(box.uid)
        return box.id

    async def stop_sandbox(self, sandbox_id):
        self._called("stop_sandbox", sandbox_id)
        for item in [c for c in self.containers.values() if c.sandbox == sandbox_id]:
            self.end(item.id, 137)
        if box := self.sandboxes.get(sandbox_id):
            box.ready = False
            self.changed(box.uid)

    async def remove_sandbox(self, sandbox_id):
        await self.stop_sandbox(sandbox_id)
        for item in [c for c in self.containers.values() if c.sandbox == sandbox_id]:
            del self.containers[item.id]
        if box := self.sandboxes.pop(sandbox_id, None):
            self.changed(box.uid)

    async def reopen_log(self, container_id):
        self._called("reopen_log", container_id)

    async def set_cpus(self, container_id, cpus):
        self._called("set_cpus", (container_id, cpus))

    async def resize(self, container_id, resources):
        self._called("resize", (container_id, resources))

    async def sandbox_ip(self, sandbox_id):
        return "10.0.0.1"

    async def create_container(self, sandbox_id, config, sandbox):
        self._called("create_container", config.metadata.name)
        box = self.sandboxes.get(sandbox_id)
        if box is None:
            raise NotFound("no sandbox")
        key = (config.metadata.name, config.metadata.attempt)
        if any((c.name, c.attempt) == key and c.uid == box.uid for c in self.containers.values()):
            raise error_for("UNKNOWN", f"container {key} is reserved")
        item = Item(f"c{next(self._ids)}", sandbox_id, box.uid, *key, self.now(), config)
        self.containers[item.id] = item
        self.changed(box.uid)
        return item.id

    async def start_container(self, container_id):
        item = self.containers[container_id]
        self._called("start_container", item.name)
        if item.state != "created" or not self.sandboxes[item.sandbox].ready:
            raise error_for("FAILED_PRECONDITION", "not created")
        item.state, item.started = "running", self.now()
        running = [
            c for c in self.containers.values() if (c.uid, c.name) == (item.uid, item.name) and c.state == "running"
        ]
        self.most_running[item.name] = max(self.most_running.get(item.name, 0), len(running))
        if item.name in self.exit_at_once:
            self.end(container_id, self.exit_at_once[item.name])
        self.changed(item.uid)

    async def stop_container(self, container_id, grace):
        self._called("stop_container", container_id)
        if container_id in self.ignore_term:
            await asyncio.sleep(grace if grace < 3 else 0.05)
        name = getattr(self.containers.get(container_id), "name", "")
        self.end(container_id, 137 if container_id in self.ignore_term else self.exit_on_stop.get(name, 143))

    async def exec_sync(self, container_id, command, timeout):
        self._called("exec_sync", " ".join(command))
        answer = self.answers.get(" ".join(command), (0, b""))
        if isinstance(answer, BusError):
            raise answer
        return answer

    async def remove_container(self, container_id):
        self._called("remove_container", container_id)
        if item := self.containers.pop(container_id, None):
            self.changed(item.uid)

    async def recursive_read_only(self, handler):
        return handler == "recursive"

    async def image(self, name, volume=False):
        return None if name in self.absent else ImageFound(f"sha256:{name}", uid=1000)

    async def pull_image(self, image, auth=None, volume=False):
        self._called("pull_image", image)
        self.auths.append(auth)
        return f"sha256:{image}"

    def end(self, container_id, code):
        item = self.containers.get(container_id)
        if item and item.state == "running":
            item.state, item.finished, item.code = "exited", self.now(), code
            self.changed(item.uid)

    def _called(self, method, what):
        self.calls.append((method, what))
        faults = self.fail.get(method)
        if faults:
            raise faults.pop(0)

    def count(self, method):
        return sum(1 for name, _ in self.calls if name == method)

    def running(self, name):
        return [c for c in self.containers.values() if c.name == name and c.state == "running"]

    def status(self, uid):
        boxes = sorted((b for b in self.sandboxes.values() if b.uid == uid), key=lambda b: -b.created)
        items = sorted((c for c in self.containers.values() if c.uid == uid), key=lambda c: -c.created)
        return PodStatus(
            uid=uid,
            name="p",
            namespace="ns",
            ips=("10.0.0.1",) if boxes and boxes[0].ready else (),
            sandboxes=tuple(b.status() for b in boxes),
            containers=tuple(c.status() for c in items),
            timestamp_ns=self.now(),
        )


class Box:
    def __init__(self, id, uid, attempt, created):
        self.id, self.uid, self.attempt, self.created, self.ready = id, uid, attempt, created, True

    def status(self):
        return SandboxStatus(id=self.id, ready=self.ready, attempt=self.attempt, created_ns=self.created)


class Item:
    def __init__(self, id, sandbox, uid, name, attempt, created, config):
        self.id, self.sandbox, self.uid, self.name, self.attempt = id, sandbox, uid, name, attempt
        self.created, self.config, self.state = created, config, "created"
        self.started = self.finished = self.code = 0

    def status(self):
        return ContainerStatus(
            id=self.id,
            sandbox_id=self.sandbox,
            name=self.name,
            attempt=self.attempt,
            state=self.state,
            created_ns=self.created,
            started_ns=self.started,
            finished_ns=self.finished,
            exit_code=self.code,
            image="img:1",
            image_id="sha256:img",
            restart_count=self.attempt,
            spec_hash=self.config.annotations["io.kubernetes.container.hash"],
            devices=self.config.annotations.get(DEVICES_ANNOTATION, ""),
        )


class FakePleg:
    """`on_stream` replays a status only when told to: the stream may lag as it likes."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.stream = {}
        self.asked = 0
        self.away = False

    def known(self, uid):
        return self.stream.get(uid)

    async def newer_than(self, uid, min_ns):
        self.asked += 1
        if self.away:
            raise Unavailable("pleg is not running")
        status = self.runtime.status(uid)
        assert status.timestamp_ns > min_ns
        return status

    def deliver(self, uid):
        status = self.runtime.status(uid)
        if status.sandboxes or status.containers:
            self.stream[uid] = status
        else:
            self.stream.pop(uid, None)


class FakeDevices:
    def __init__(self):
        self.admitted: list[AdmitPod] = []
        self.released = []
        self.pre_started = []
        self.fail_pre_start: dict[str, BusError] = {}
        self.prepared, self.unprepared = [], []
        self.cdi: dict[str, tuple[str, ...]] = {}
        self.fail_claims: list[BusError] = []
        self.fail: list[BusError] = []
        self.grants: dict[str, ContainerGrant] = {}
        self.warnings: tuple[str, ...] = ()
        self.pool = ""

    async def admit(self, request):
        if self.fail:
            raise self.fail.pop(0)
        self.admitted.append(request)
        return AdmittedPod(self.grants, self.warnings)

    async def prepare(self, request):
        self.prepared.append(request)
        if self.fail_claims:
            raise self.fail_claims.pop(0)
        return self.cdi

    async def unprepare(self, uid):
        if self.fail_claims:
            raise self.fail_claims.pop(0)
        self.unprepared.append(uid)

    async def release(self, uid):
        self.released.append(uid)

    async def pre_start(self, uid, container, resources):
        self.pre_started.append((uid, container))
        if container in self.fail_pre_start:
            raise self.fail_pre_start[container]

    def shared(self):
        return self.pool


class FakeStatuses:
    def __init__(self):
        self.history = []
        self.by_uid = {}
        self.away = False
        self.others = False
        """Somebody else wrote into the status."""

    @property
    def last(self):
        return self.history[-1]

    def reasons(self):
        """Return the reason of each pod's latest status that has one."""
        return {uid: status["reason"] for uid, status in self.by_uid.items() if "reason" in status}

    def publish(self, spec, status, reported_ns=0):
        self.by_uid[spec.uid] = status
        if not self.history or self.history[-1] != status:
            self.history.append(status)

    def settled(self, uid):
        return not self.away

    def overwritten(self, spec):
        return self.others

    async def wait_settled(self, uid, seconds):
        pass

    def forget(self, uid):
        pass


class FakePods:
    def __init__(self):
        self.deleted = []

    async def delete(self, spec):
        self.deleted.append(spec.uid)


class FakeHealth:
    """What pods hold by uid, and which were told to have ended."""

    def __init__(self):
        self.enabled = self.synced = True
        self.holds, self.over = {}, {}

    async def held(self, uid, admitted):
        return self.holds.get(uid, PodHeld())

    def publish_ended(self, spec, held):
        self.over[spec.uid] = held


class FakeObjects:
    """ConfigMaps and Secrets by (kind, name); `fail` is raised as long as it is set."""

    def __init__(self):
        self.items = {}
        self.fail = None
        self.tokens = 0
        self.reads = 0

    async def read(self, kind, namespace, name):
        self.reads += 1
        if self.fail:
            raise self.fail
        return self.items.get((kind, name))

    async def token(self, spec, audience, seconds):
        self.tokens += 1
        return f"token-{audience}-{self.tokens}", float(seconds)


class FakeRecorder:
    def __init__(self):
        self.events = []

    def pod(self, spec, kind, reason, message, container=None):
        self.events.append((kind, reason, message))

    def reasons(self):
        return [reason for _, reason, _ in self.events]


class FakeNode:
    """A node with room for all; `read` is what the API has by now."""

    def __init__(self):
        self.seen = {
            "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}},
            "spec": {},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "1Ti", "pods": "110"}},
        }
        self.read = None
        self.advertised_names: frozenset[str] = frozenset()

    def node(self):
        return self.seen

    def advertised(self):
        return self.advertised_names

    async def refresh(self):
        if self.read is not None:
            self.seen = self.read


class FakeDependencies:
    def __init__(self, root: Path):
        self.local_node = FakeNode()
        self.network: Callable[[], str] = lambda: ""
        self.runtime = FakeRuntime()
        self.pleg = FakePleg(self.runtime)
        self.objects, self.health = FakeObjects(), FakeHealth()
        self.devices, self.statuses, self.pods, self.recorder = (
            FakeDevices(),
            FakeStatuses(),
            FakePods(),
            FakeRecorder(),
        )
        self.probes = ProbeMetrics()
        self.deps = Dependencies(
            runtime=self.runtime,
            pleg=self.pleg,
            devices=self.devices,
            statuses=self.statuses,
            pods=self.pods,
            objects=self.objects,
            recorder=self.recorder,
            health=self.health,
            node_info=NodeInfo(node_name="n1", root=root, logs=root / "logs", host_ip="127.0.0.1"),
            local_node=self.local_node,
            network=lambda: self.network(),
            probes=self.probes,
        )
