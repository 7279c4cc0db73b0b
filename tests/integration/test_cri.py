"""A runtime that lies, stalls, floods or hangs: cri and pleg keep going, say why, and do not spin."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import grpc
import pytest

from actors.pleg.actor import LONGEST_ID
from protocols.bus import BusError
from protocols.messages import cri
from protocols.process.settings import Settings
from protocols.wire import cri_pb2 as pb
from tests.support.fake_cri import FakeCri, container_of, sandbox_of
from tests.support.pleg_node import PlegNode
from tests.support.settings import plane_settings
from tests.support.waiting import until_async

UID = "u1"


@asynccontextmanager
async def running_pleg(
    prepare: Callable[[FakeCri], None] = lambda fake: None, **changes: Any
) -> AsyncIterator[tuple[FakeCri, PlegNode]]:
    root = Path(mkdtemp(prefix="np", dir="/tmp"))
    fake = FakeCri(root / "runtime" / "fake.sock")
    (root / "run").mkdir(mode=0o700)
    prepare(fake)
    await fake.start()
    try:
        async with PlegNode(settings(root, fake), **changes) as node, asyncio.timeout(150):
            yield fake, node
            assert node.alive(), node.errors()
            assert "Traceback" not in node.errors()
    finally:
        await fake.stop()
        shutil.rmtree(root, ignore_errors=True)


def settings(root: Path, fake: FakeCri) -> Settings:
    return plane_settings(root, runtime_endpoint=f"unix://{fake.path}", runtime_embedded=False)


async def heard(node: PlegNode, events: int) -> None:
    """Until pleg has received so many that could be read."""
    received = "evented_pleg_notifications_received"
    await until_async(f"{events} events", lambda: node.metric("pleg", received), every=0.1, good=lambda n: n >= events)


async def quiet(node: PlegNode, seconds: float = 2.0) -> float:
    """Share of a core that both use over a while."""
    before = node.cpu()
    await asyncio.sleep(seconds)
    return (node.cpu() - before) / seconds


@pytest.mark.scenario("S3")
async def test_cri_runtime_without_events_is_generic() -> None:
    """S3. No stream was ever opened, so success must not be counted (upstream counts five)."""

    async with running_pleg(lambda fake: setattr(fake, "events", None)) as (fake, node):
        await node.until(lambda: node.state.healthy and not node.runtime_state.events_supported)
        await node.until(lambda: node.state.mode == "generic")
        lists = fake.count("ListPodSandbox")
        await node.until(lambda: fake.count("ListPodSandbox") >= lists + 2)  # one under way, one for the new mode
        lists, began = fake.count("ListPodSandbox"), time.monotonic()
        await node.until(lambda: fake.count("ListPodSandbox") >= lists + 4)
        assert time.monotonic() - began > 1.5, "generic lists each second"
        assert fake.count("GetContainerEvents") == 1
        assert await node.metric("cri", "kubelet_evented_pleg_connection_success_count") == 0
        assert await node.metric("cri", "kubelet_evented_pleg_connection_error_count") == 1


async def test_cri_runtime_restarted_with_events_streams_at_once() -> None:
    async with running_pleg(lambda fake: setattr(fake, "events", None)) as (fake, node):
        await node.until(lambda: node.state.healthy and not node.runtime_state.events_supported)
        await fake.stop()
        fake.events = asyncio.Queue()
        await fake.start()
        await node.until(lambda: node.runtime_state.streaming and node.state.mode != "generic")


async def test_cri_stream_ends_keeps_open_calls() -> None:
    """A broken stream renews its channel; a StopContainer that waits for its grace must not be cut by that."""

    def prepare(fake: FakeCri) -> None:
        fake.answers["StopContainer"] = ...

    async with running_pleg(prepare) as (fake, node):
        await node.until(lambda: node.runtime_state.streaming)
        call = cri.CriCall("StopContainer", b"")
        asking = asyncio.ensure_future(node.bus.call(cri.OWNER, cri.CALL, call, cri.CriReply, timeout=60))
        await node.until(lambda: fake.count("StopContainer"))
        for _ in range(2):
            fake.events.put_nowait(None)  # type: ignore[union-attr]  # there is a stream here
        await node.until(lambda: fake.count("GetContainerEvents") >= 3)
        await asyncio.sleep(0.2)
        assert not asking.done(), "the call was cut"
        fake.answers["StopContainer"] = pb.StopContainerResponse()
        fake.release.set()
        await asking


async def test_cri_stream_breaking_at_once_follows_table() -> None:
    def prepare(fake: FakeCri) -> None:
        for _ in range(20):
            fake.events.put_nowait(grpc.StatusCode.INTERNAL)  # type: ignore[union-attr]  # there is a stream here

    async with running_pleg(prepare) as (fake, node):
        began = time.monotonic()
        await node.until(lambda: node.runtime_state.failures >= 4)
        await asyncio.sleep(0.5)
        passed = time.monotonic() - began
        assert passed > 2.5, "0, 0, 1, 2 s, then 4 s"
        assert 4 <= fake.count("GetContainerEvents") <= 4 + passed // 4
        await node.until(lambda: node.state.mode == "generic" and "INTERNAL" in node.state.why)
        assert await node.metric("cri", "kubelet_evented_pleg_connection_error_count") >= 4


async def test_cri_stream_without_headers_is_streaming() -> None:
    """grpc-go (containerd, CRI-O) does so: on an idle node the mode would stay generic for ever."""

    async with running_pleg(lambda fake: setattr(fake, "headers", False)) as (_fake, node):
        await node.until(lambda: node.runtime_state.streaming and node.state.mode == "evented")


BAD_EVENTS: list[dict[str, Any]] = [
    {},
    {"container_id": "c1", "created_at": 5},
    {"container_id": "other", "container_event_type": 1, "pod_sandbox_status": sandbox_of("nobody")},
    {"container_id": "c1", "container_event_type": 77, "pod_sandbox_status": sandbox_of(UID)},
    {"container_id": "c1", "container_event_type": 1, "created_at": 1, "pod_sandbox_status": sandbox_of(UID)},
    {"container_id": "c1", "container_event_type": 2, "created_at": 2**62, "pod_sandbox_status": sandbox_of(UID)},
    {"container_id": "c1", "container_event_type": 3, "pod_sandbox_status": pb.PodSandboxStatus()},
]


@pytest.mark.parametrize("stamp", ["seconds", "now"])
async def test_cri_nonsense_events_change_nothing(stamp: str) -> None:
    """Wrong ids, unknown enums, empty statuses, stamps in seconds, garbage; a flood."""
    now = time.time_ns()
    stamps = {"seconds": now // 10**9, "now": now}

    def prepare(fake: FakeCri) -> None:
        fake.pod(UID, [container_of("c1", pb.CONTAINER_RUNNING)], stamps[stamp])

    async with running_pleg(prepare) as (fake, node):
        await node.until(lambda: node.is_in(UID, "c1", "running"))
        await node.until(lambda: node.state.mode == ("evented" if stamp == "now" else "hint"))
        for _ in range(50):
            fake.events.put_nowait(b"\xff\xfe garbage")  # type: ignore[union-attr]  # there is a stream here
            for event in BAD_EVENTS:
                fake.send(**event)
        await heard(node, 50 * len(BAD_EVENTS))
        await asyncio.sleep(0.5)
        lists = fake.count("ListPodSandbox")
        assert await quiet(node) < 0.3
        assert fake.count("ListPodSandbox") - lists < 30, "listed over and over"
        assert node.is_in(UID, "c1", "running")
        assert not [event for event in node.heard.events if event[1] != "ContainerStarted"]
        assert node.state.healthy
        assert await node.metric("pleg", "nodeplane_pleg_undecodable_events_total") == 50
        assert node.errors().count("runtime event undecodable") == 1


async def test_events_with_long_ids_are_only_counted() -> None:
    async with running_pleg(lambda fake: fake.pod(UID, [container_of("c1", pb.CONTAINER_RUNNING)])) as (fake, node):
        await node.until(lambda: node.is_in(UID, "c1", "running"))
        fake.send(container_id="c" * (LONGEST_ID + 1), container_event_type=pb.CONTAINER_STARTED_EVENT)
        fake.send(pod_sandbox_status=sandbox_of("u" * (LONGEST_ID + 1)))
        fake.send(container_id="c" * LONGEST_ID, pod_sandbox_status=sandbox_of("u" * LONGEST_ID))
        await heard(node, 1)
        assert await node.metric("pleg", "nodeplane_pleg_undecodable_events_total") == 2


async def test_cri_unknown_state_is_unknown() -> None:
    async with running_pleg(lambda fake: fake.pod(UID, [container_of("c1", 42)])) as (_fake, node):
        await node.until(lambda: node.is_in(UID, "c1", "unknown"))


def spoilt(method: str, answer: Any) -> tuple[dict[str, Any], Callable[[FakeCri], None]]:
    """A runtime with a pod that answers one call so; and all answers as they were, once it is made."""
    good: dict[str, Any] = {}

    def prepare(fake: FakeCri) -> None:
        fake.pod(UID, [container_of("c1", pb.CONTAINER_RUNNING)])
        good.update(fake.answers)
        fake.answers[method] = answer

    return good, prepare


@pytest.mark.parametrize(
    ("method", "answer", "says"),
    [
        ("ListContainers", b"\xff\xff", "not CRI v1"),
        ("ListContainers", b"\x0a" + b"\x80\x80\x80\x08" + bytes(16 << 20), "larger than max"),
        ("ListPodSandbox", grpc.StatusCode.INTERNAL, "as told"),
        ("ListPodSandbox", ..., "yet to be successful"),
    ],
)
async def test_cri_list_fails_is_reported_and_recovers(method: str, answer: Any, says: str) -> None:
    good, prepare = spoilt(method, answer)

    async with running_pleg(prepare) as (fake, node):
        await node.until(lambda: fake.count(method) >= (1 if answer is ... else 3))
        await node.until(lambda: node.state.message == "pleg has yet to be successful")
        assert not node.state.healthy
        if answer is not ...:
            with pytest.raises(BusError, match=says):
                await node.newer(UID, timeout=20)
            fake.answers = good
            await node.until(lambda: node.state.healthy and node.is_in(UID, "c1", "running"))


@pytest.mark.parametrize(
    ("method", "answer", "says"),
    [
        (
            "PodSandboxStatus",
            pb.PodSandboxStatusResponse(status=pb.PodSandboxStatus(id="other")),
            "answered with 'other'",
        ),
        ("PodSandboxStatus", grpc.StatusCode.UNKNOWN, "as told"),
        ("ContainerStatus", pb.ContainerStatusResponse(), "answered with ''"),
    ],
)
async def test_cri_pod_without_status_delays_itself_only(method: str, answer: Any, says: str) -> None:
    good, prepare = spoilt(method, answer)

    async with running_pleg(prepare) as (fake, node):
        await node.until(lambda: node.state.healthy, what="health of the node")
        assert (await node.newer("uid-of-nobody")).sandboxes == ()
        with pytest.raises(BusError, match=says):
            await node.newer(UID, timeout=20)
        fake.answers = good
        await node.until(lambda: node.is_in(UID, "c1", "running"), what="news of the pod")
        await node.newer(UID)


async def test_cri_large_list_is_streamed() -> None:
    """KEP-5825: whole lists end at 16 MiB, some 11,000 containers. From the first that is longer on, pieces."""
    labels = {"x": "y" * 1000}
    item = pb.Container(id="c1", pod_sandbox_id=f"s-{UID}", state=pb.CONTAINER_RUNNING)
    more = pb.ListContainersResponse(containers=[pb.Container(id="", labels=labels)] * 1000).SerializeToString()

    def prepare(fake: FakeCri) -> None:
        fake.pod(UID, [container_of("c1", pb.CONTAINER_RUNNING)], time.time_ns())
        whole = pb.ListContainersResponse(containers=[item]).SerializeToString()
        fake.answers["ListContainers"] = whole + more * 20
        fake.pieces = {"StreamContainers": [more] * 20 + [whole], "StreamPodSandboxes": []}

    async with running_pleg(prepare, pleg_mode="generic") as (fake, node):
        await node.until(lambda: node.state.healthy and node.is_in(UID, "c1", "running"))
        await node.until(lambda: fake.count("StreamContainers") >= 1)
        assert await node.metric("cri", 'kubelet_runtime_operations_total{operation_type="list_containers"}') >= 1


@pytest.mark.parametrize("answer", [b"\xff\xff", b"", grpc.StatusCode.UNAVAILABLE])
async def test_cri_endpoint_of_no_runtime_is_named(answer: Any) -> None:
    good: dict[str, Any] = {}

    def prepare(fake: FakeCri) -> None:
        good.update(fake.answers)
        fake.answers["Version"] = answer

    async with running_pleg(prepare) as (fake, node):
        await node.until(lambda: node.runtime_state.message)
        assert not node.runtime_state.connected
        fake.answers = good
        await node.until(lambda: node.runtime_state.connected)
