"""A pod, a runtime in memory, and a deps for podworker's tests."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from actors.podworker.model.dependencies import Dependencies, ImageFound, ImagePull, NodeInfo
from actors.podworker.model.probe_metrics import ProbeMetrics
from actors.podworker.pods.containers.pull_records import PullRecords
from protocols.bus import BusError, NotFound, Unavailable, error_for
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.messages.devices import DEVICES_ANNOTATION, AdmitPod, AdmittedPod, ContainerGrant, PrepareClaims
from protocols.messages.health import PodHeld
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from protocols.wire import cri_pb2

UID = "uid-1"


def pod(
    *containers: views.Container,
    inits: Iterable[views.Container] = (),
    policy: str = "Always",
    uid: str = UID,
    status: Object | None = None,
    metadata: Object | None = None,
    **spec: Any,
) -> views.Pod:
    made = {
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
    return cast("views.Pod", made)


def container(name: str, image: str = "img:1", **more: Any) -> views.Container:
    return cast("views.Container", {"name": name, "image": image, **more})


def sidecar(name: str) -> views.Container:
    return container(name, restartPolicy="Always")


class FakeRuntime:
    """In memory, strict like a real one: names stay reserved, only a created container starts."""

    def __init__(self) -> None:
        self._last = 0
        self.clock = time.time_ns
        self.sandboxes: dict[str, Box] = {}
        self.containers: dict[str, Item] = {}
        self.calls: list[tuple[str, Any]] = []
        self.fail: dict[str, list[BusError]] = {}
        self.exit_at_once: dict[str, int] = {}
        self.answers: dict[str, tuple[int, bytes] | BusError] = {}
        self.ignore_term: set[str] = set()
        self.exit_on_stop: dict[str, int] = {}
        self.most_running: dict[str, int] = {}
        self._ids = itertools.count(1)
        self.changed: Callable[[str], object] = lambda uid: None
        self.absent: set[str] = set()
        self.auths: list[cri_pb2.AuthConfig | None] = []
        self.handler = ""
        self.used = 0

    def now(self) -> int:
        self._last = max(self._last + 1, self.clock())
        return self._last

    async def run_sandbox(self, config: cri_pb2.PodSandboxConfig, handler: str) -> str:
        self._called("run_sandbox", config.metadata.attempt)
        self.handler = handler
        for sandbox in self.sandboxes.values():
            if sandbox.uid == config.metadata.uid and sandbox.attempt == config.metadata.attempt:
                raise error_for("UNKNOWN", "name is reserved")
        box = Box(f"s{next(self._ids)}", config.metadata.uid, config.metadata.attempt, self.now())
        self.sandboxes[box.id] = box
        self.changed(box.uid)
        return box.id

    async def stop_sandbox(self, sandbox_id: str) -> None:
        self._called("stop_sandbox", sandbox_id)
        for item in [c for c in self.containers.values() if c.sandbox == sandbox_id]:
            self.end(item.id, 137)
        if box := self.sandboxes.get(sandbox_id):
            box.ready = False
            self.changed(box.uid)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self.stop_sandbox(sandbox_id)
        for item in [c for c in self.containers.values() if c.sandbox == sandbox_id]:
            del self.containers[item.id]
        if box := self.sandboxes.pop(sandbox_id, None):
            self.changed(box.uid)

    async def reopen_log(self, container_id: str) -> None:
        self._called("reopen_log", container_id)

    async def set_cpus(self, container_id: str, cpus: str) -> None:
        self._called("set_cpus", (container_id, cpus))

    async def resize(self, container_id: str, resources: cri_pb2.LinuxContainerResources) -> None:
        self._called("resize", (container_id, resources))

    async def memory_used(self, container_id: str) -> int:
        return self.used

    async def sandbox_ips(self, sandbox_id: str) -> tuple[str, ...]:
        return ("10.0.0.1",)

    async def create_container(
        self, sandbox_id: str, config: cri_pb2.ContainerConfig, sandbox: cri_pb2.PodSandboxConfig
    ) -> str:
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

    async def start_container(self, container_id: str) -> None:
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

    async def stop_container(self, container_id: str, grace: int) -> None:
        self._called("stop_container", container_id)
        if container_id in self.ignore_term:
            await asyncio.sleep(grace if grace < 3 else 0.05)
        name = getattr(self.containers.get(container_id), "name", "")
        self.end(container_id, 137 if container_id in self.ignore_term else self.exit_on_stop.get(name, 143))

    async def exec_sync(self, container_id: str, command: list[str], timeout: int) -> tuple[int, bytes]:
        self._called("exec_sync", " ".join(command))
        answer = self.answers.get(" ".join(command), (0, b""))
        if isinstance(answer, BusError):
            raise answer
        return answer

    async def remove_container(self, container_id: str) -> None:
        self._called("remove_container", container_id)
        if item := self.containers.pop(container_id, None):
            self.changed(item.uid)

    async def recursive_read_only(self, handler: str) -> bool:
        return handler == "recursive"

    async def image(self, name: str, volume: bool = False) -> ImageFound | None:
        return None if name in self.absent else ImageFound(f"sha256:{name}", uid=1000)

    async def pull_image(self, pull: ImagePull, auth: cri_pb2.AuthConfig | None = None) -> str:
        self._called("pull_image", pull.image)
        self.auths.append(auth)
        return f"sha256:{pull.image}"

    def end(self, container_id: str, code: int) -> None:
        item = self.containers.get(container_id)
        if item and item.state == "running":
            item.state, item.finished, item.code = "exited", self.now(), code
            self.changed(item.uid)

    def _called(self, method: str, what: object) -> None:
        self.calls.append((method, what))
        faults = self.fail.get(method)
        if faults:
            raise faults.pop(0)

    def count(self, method: str) -> int:
        return sum(1 for name, _ in self.calls if name == method)

    def running(self, name: str) -> "list[Item]":
        return [c for c in self.containers.values() if c.name == name and c.state == "running"]

    def status(self, uid: str) -> PodStatus:
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
    def __init__(self, id: str, uid: str, attempt: int, created: int) -> None:
        self.id, self.uid, self.attempt, self.created, self.ready = id, uid, attempt, created, True

    def status(self) -> SandboxStatus:
        return SandboxStatus(id=self.id, ready=self.ready, attempt=self.attempt, created_ns=self.created)


class Item:
    def __init__(
        self,
        id: str,
        sandbox: str,
        uid: str,
        name: str,
        attempt: int,
        created: int,
        config: cri_pb2.ContainerConfig,
    ) -> None:
        self.id, self.sandbox, self.uid, self.name, self.attempt = id, sandbox, uid, name, attempt
        self.created, self.config, self.state = created, config, "created"
        self.started = self.finished = self.code = 0

    def status(self) -> ContainerStatus:
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

    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime = runtime
        self.stream: dict[str, PodStatus] = {}
        self.asked = 0
        self.away = False

    def known(self, uid: str) -> PodStatus | None:
        return self.stream.get(uid)

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        self.asked += 1
        if self.away:
            raise Unavailable("pleg is not running")
        status = self.runtime.status(uid)
        assert status.timestamp_ns > min_ns
        return status

    def evented(self) -> bool:
        return False

    def deliver(self, uid: str) -> None:
        status = self.runtime.status(uid)
        if status.sandboxes or status.containers:
            self.stream[uid] = status
        else:
            self.stream.pop(uid, None)


class FakeDevices:
    def __init__(self) -> None:
        self.admitted: list[AdmitPod] = []
        self.released: list[str] = []
        self.pre_started: list[tuple[str, str]] = []
        self.fail_pre_start: dict[str, BusError] = {}
        self.prepared: list[PrepareClaims] = []
        self.unprepared: list[str] = []
        self.cdi: dict[str, tuple[str, ...]] = {}
        self.fail_claims: list[BusError] = []
        self.fail: list[BusError] = []
        self.grants: dict[str, ContainerGrant] = {}
        self.warnings: tuple[str, ...] = ()
        self.pool = ""

    async def admit(self, request: AdmitPod) -> AdmittedPod:
        if self.fail:
            raise self.fail.pop(0)
        self.admitted.append(request)
        return AdmittedPod(self.grants, self.warnings)

    async def prepare(self, request: PrepareClaims) -> dict[str, tuple[str, ...]]:
        self.prepared.append(request)
        if self.fail_claims:
            raise self.fail_claims.pop(0)
        return self.cdi

    async def unprepare(self, uid: str) -> None:
        if self.fail_claims:
            raise self.fail_claims.pop(0)
        self.unprepared.append(uid)

    async def release(self, uid: str) -> None:
        self.released.append(uid)

    async def pre_start(self, uid: str, container: str, resources: tuple[str, ...]) -> None:
        self.pre_started.append((uid, container))
        if container in self.fail_pre_start:
            raise self.fail_pre_start[container]

    def shared(self) -> str:
        return self.pool


class FakeStatuses:
    def __init__(self) -> None:
        self.history: list[views.PodStatus] = []
        self.by_uid: dict[str, views.PodStatus] = {}
        self.forgotten: list[str] = []
        self.away = False
        self.others = False
        """Somebody else wrote into the status."""

    @property
    def last(self) -> views.PodStatus:
        return self.history[-1]

    def reasons(self) -> dict[str, str]:
        """Return the reason of each pod's latest status that has one."""
        return {uid: status["reason"] for uid, status in self.by_uid.items() if "reason" in status}

    def publish(self, spec: PodSpec, status: views.PodStatus, reported_ns: int = 0) -> None:
        self.by_uid[spec.uid] = status
        if not self.history or self.history[-1] != status:
            self.history.append(status)

    def settled(self, uid: str) -> bool:
        return not self.away

    def overwritten(self, spec: PodSpec) -> bool:
        return self.others

    async def wait_settled(self, uid: str, seconds: float) -> None:
        pass

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)

    def repeat_lost(self, spec: PodSpec) -> None:
        pass


class FakePods:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def delete(self, spec: PodSpec) -> None:
        self.deleted.append(spec.uid)


class FakeHealth:
    """What pods hold by uid, and which were told to have ended."""

    def __init__(self) -> None:
        self.enabled = self.synced = True
        self.holds: dict[str, PodHeld] = {}
        self.over: dict[str, PodHeld] = {}

    async def held(self, uid: str, admitted: bool) -> PodHeld:
        return self.holds.get(uid, PodHeld())

    def publish_ended(self, spec: PodSpec, held: PodHeld) -> None:
        self.over[spec.uid] = held


class FakeObjects:
    """ConfigMaps and Secrets by (kind, name); `fail` is raised as long as it is set."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], Object] = {}
        self.fail: Exception | None = None
        self.tokens = 0
        self.reads = 0

    async def read(self, kind: str, namespace: str, name: str) -> Object | None:
        self.reads += 1
        if self.fail:
            raise self.fail
        return self.items.get((kind, name))

    async def token(self, spec: PodSpec, audience: str, seconds: int) -> tuple[str, float]:
        self.tokens += 1
        return f"token-{audience}-{self.tokens}", float(seconds)


class FakeRecorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def pod(self, spec: PodSpec, kind: str, reason: str, message: str, container: ContainerSpec | None = None) -> None:
        self.events.append((kind, reason, message))

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]


class FakeNode:
    """A node with room for all; `read` is what the API has by now."""

    def __init__(self) -> None:
        self.seen: views.Node = {
            "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}},
            "spec": {},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "1Ti", "pods": "110"}},
        }
        self.read: views.Node | None = None
        self.advertised_names: frozenset[str] = frozenset()

    def node(self) -> views.Node:
        return self.seen

    def advertised(self) -> frozenset[str]:
        return self.advertised_names

    async def refresh(self) -> None:
        if self.read is not None:
            self.seen = self.read


class FakeDependencies:
    def __init__(self, root: Path, runtime: FakeRuntime | None = None) -> None:
        self.local_node = FakeNode()
        self.network: Callable[[], str] = lambda: ""
        self.runtime = runtime or FakeRuntime()
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
            pulls=PullRecords(root / "pulled-images.json"),
        )
