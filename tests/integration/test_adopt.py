"""The adopt mode as a user starts it: the command, a kubelet stand-in, and the embedded runtime as the node's CRI."""

import asyncio
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.pod_resources import RESUME, REVISION, SEQUENCE, SNAPSHOT
from supervisor.cli.main import main
from tests.support.containerd import Containerd, why_not
from tests.support.device_node import until
from tests.support.pod_resources_client import Agent, PodEvent, PodWatch, fold, ids
from tests.support.runtime import RuntimeProcess
from tests.support.stand_in_kubelet import StandInKubelet
from tests.support.store_lab import listened_at

AllocatableEvent = v1.ListAndWatchAllocatableResourcesResponse


class Adopted:
    """A node with a kubelet and a runtime, and `nodeplane adopt` beside them."""

    def __init__(self, runtime: RuntimeProcess) -> None:
        self.runtime = runtime
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.kubelet = StandInKubelet(self.root / "kubelet" / "kubelet.sock")
        self.socket = self.root / "watch" / "kubelet.sock"
        self.agent = Agent(self.socket)
        self._process: subprocess.Popen[bytes] | None = None
        self.sandboxes: dict[str, str] = {}

    async def open(self) -> None:
        await self.kubelet.start()
        command = [
            *(sys.executable, "-m", "supervisor.cli.main", "adopt", "--root", str(self.root / "np"), "--poll", "2"),
            *("--pod-resources", str(self.kubelet.socket), "--runtime", f"unix://{self.runtime.socket}"),
            *("--socket", str(self.socket), "--metrics-port", "0", "--pod-resources-qps", "0"),
        ]
        self._process = self._spawn(command)
        await until("our socket", lambda: listened_at(self.socket))

    def _spawn(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with open(self.root / "log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    async def close(self) -> None:
        await self.agent.close()
        if self._process:
            self._process.terminate()
            code = await asyncio.to_thread(self._process.wait, 60)
            assert code == 0, (self.root / "log").read_text()
        await self.kubelet.stop()
        left = [path for path in self.root.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]
        assert left == []
        shutil.rmtree(self.root)

    def logs(self) -> str:
        texts = [path.read_text() for path in (self.root / "np" / "logs").glob("*.log")]
        return "\n".join([(self.root / "log").read_text(), *texts])

    async def command(self, *words: str) -> str:
        ended = await self._run(*words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    async def failing(self, *words: str) -> tuple[int, str]:
        ended = await self._run(*words)
        return ended.returncode, ended.stderr

    async def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        whole = [sys.executable, "-m", "supervisor.cli.main", "--root", str(self.root / "np"), *words]
        return await asyncio.to_thread(subprocess.run, whole, capture_output=True, text=True, timeout=60)

    async def start_pod(self, name: str, *devices: str) -> str:
        """The runtime has its sandbox when kubelet lists it: a busy machine may take long for one, and a pod without is
        told under another name (test_adopt_parts.py)."""
        uid = f"uid-{name}"
        self.sandboxes[uid] = await self.runtime.sandbox(name, host=True)
        self.kubelet.admit(uid, name, devices)
        return uid

    async def end_pod(self, uid: str, after: float = 0.2) -> None:
        """The runtime stops it; kubelet notices that a moment later."""
        await self.runtime.call("StopPodSandbox", pod_sandbox_id=self.sandboxes[uid])
        await asyncio.sleep(after)
        self.kubelet.release(uid)


@asynccontextmanager
async def adopting(make: Callable[[], RuntimeProcess] = RuntimeProcess) -> AsyncIterator[Adopted]:
    async with make() as runtime, asyncio.timeout(120):
        node = Adopted(runtime)
        try:
            await node.open()
            yield node
        except BaseException:
            print(node.logs())
            raise
        finally:
            await node.close()


async def next_pod(watch: PodWatch) -> tuple[int, str, list[str]]:
    event = await watch.next()
    [pod] = event.pod_resources
    return event.action, event.uid, sorted(id for item in pod.containers for id in ids(item.devices))


async def test_the_watch_follows_kubelet_by_the_runtimes_events() -> None:
    async with adopting() as node:
        watch = await node.agent.watch()
        events = await node.agent.watch_allocatable()
        node.kubelet.devices = {"g0": 0, "g1": 1, "g2": None}
        first = await node.start_pod("a", "g0", "g1")
        assert await next_pod(watch) == (PodEvent.ADDED, first, ["g0", "g1"])
        everything = await events.next()
        assert (everything.action, ids(everything.devices)) == (AllocatableEvent.ADDED, ["g0", "g1", "g2"])
        [listed] = await node.agent.list_all()
        assert listed.SerializeToString(deterministic=True) == node.kubelet.pods[first].SerializeToString(
            deterministic=True
        )
        # a device changes hands: the release is told first
        await node.end_pod(first)
        second = await node.start_pod("b", "g1")
        assert await next_pod(watch) == (PodEvent.DELETED, first, [])
        assert await next_pod(watch) == (PodEvent.ADDED, second, ["g1"])
        # a pod of the same name is another pod
        await node.end_pod(second)
        assert await next_pod(watch) == (PodEvent.DELETED, second, [])
        # no event tells of a plugin: the poll does
        del node.kubelet.devices["g2"]
        gone = await events.next()
        assert (gone.action, ids(gone.devices)) == (AllocatableEvent.DELETED, ["g2"])
        await until("its word", lambda: says(node, "follows kubelet"))
        # no device manager is here: commands that ask it say what to use
        for words in (("devices",), ("calls",), ("calls", "-f"), ("cpus",), ("chaos", "device", "a/b", "c", "healthy")):
            code, error = await node.failing(*words)
            assert (code, error.count("\n")) == (2, 1)
            assert "has no device manager; `nodeplane watch allocatable`" in error


async def test_kubelet_and_runtime_and_every_actor_may_restart() -> None:
    async with adopting() as node:
        node.kubelet.devices = {f"g{number}": 0 for number in range(8)}
        first = await node.start_pod("a", "g0")
        plain = await node.agent.watch((SNAPSHOT, "1"), (SEQUENCE, "1"))
        while (event := await plain.next()).uid != first:
            pass
        assert event.action == PodEvent.ADDED
        # a kubelet that has just started lists nothing: what runs stays
        await node.kubelet.stop()
        await until("away", lambda: health(node, health_pb2.HealthCheckResponse.NOT_SERVING))
        await node.kubelet.start(synced=False)
        await until("asked again", lambda: health(node, health_pb2.HealthCheckResponse.SERVING))
        assert [pod.name for pod in await node.agent.list_all()] == ["a"]
        node.kubelet.synced = True
        second = await node.start_pod("b", "g1")
        seen = await until_uid(plain, second)
        assert [event.uid for event in seen if event.uid] == [second], "nothing but the bookmark before it"
        # the runtime goes and comes back
        await node.runtime.kill()
        await node.runtime.start()
        third = await node.start_pod("c", "g2")
        await until_uid(plain, third)
        # so do we: a plain client connects again and agrees with kubelet, one with a position goes on from there
        listed, revision = await node.agent.list_at()
        for actor in ("cri", "adopt", "frontdoor"):
            await node.command("chaos", "kill", actor)
        await node.end_pod(first, after=0.0)
        await until("the same picture", lambda: same(node))
        again = await node.agent.watch((RESUME, revision), (SEQUENCE, "1"))
        assert again.headers[REVISION].partition("-")[0] == revision.partition("-")[0]
        assert await next_pod(again) == (PodEvent.DELETED, first, [])
        assert {item.name for item in listed} == {"a", "b", "c"}


async def test_a_containerd_without_events_is_polled() -> None:
    """Debian's is too old for them."""
    if reason := why_not():
        pytest.skip(reason)

    async with adopting(Containerd) as node:
        node.kubelet.devices = {"g0": 0}
        watch = await node.agent.watch()
        uid = await node.start_pod("a", "g0")
        assert await next_pod(watch) == (PodEvent.ADDED, uid, ["g0"])
        await node.end_pod(uid)
        assert await next_pod(watch) == (PodEvent.DELETED, uid, [])
        await until("its word", lambda: says(node, "containerd"))


async def until_uid(watch: PodWatch, uid: str) -> list[Any]:
    seen = [await watch.next()]
    while seen[-1].uid != uid:
        seen.append(await watch.next())
    return seen


async def health(node: Adopted, wanted: int) -> bool:
    stub = health_pb2_grpc.HealthStub(node.agent.channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service="v1.PodResourcesLister"), timeout=20)
    return bool(answer.status == wanted)


async def says(node: Adopted, words: str) -> bool:
    return words in await node.command("status")


async def same(node: Adopted) -> bool:
    try:
        listed = fold(await node.agent.list_all(), [])
    except Exception:
        return False
    return listed == fold(list(node.kubelet.pods.values()), [])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--socket", "/tmp/k.sock", "--pod-resources", "/tmp/k.sock"), "is kubelet's own"),
        (("--pod-resources", "/tmp"), "is a directory"),
        (("--poll", "0"), "is no pause"),
        (("--socket", "/tmp/" + "x" * 120), "more than 107 bytes"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adopt", *flags]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
