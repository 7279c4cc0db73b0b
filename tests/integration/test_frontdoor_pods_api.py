"""v1alpha1.Pods: the node's pods from the node, in protobuf as Go's clients read it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from actors.frontdoor.feeds.broadcast import Watchers
from actors.frontdoor.pods_api import NodePodFeed, PodsMethods
from actors.frontdoor.serving.endpoint import Endpoint, FairLimiter
from actors.frontdoor.serving.listener import SocketOptions
from actors.frontdoor.serving.metrics import FrontDoorMetrics
from actors.frontdoor.serving.quota import WatchQuota
from actors.frontdoor.serving.server import FrontdoorServer
from protocols.bus import Event, Op
from protocols.kube.protobuf.envelope import decode_message
from protocols.kube.protobuf.table import message_of
from protocols.messages.podworker import NodePod
from protocols.wire import pods_v1alpha1_pb2 as pb
from protocols.wire.methods import unix_channel
from protocols.wire.pod_resources import GET_POD, LIST_PODS, WATCH_PODS
from tests.support.front_door import silent_log

QUEUE = 4


def node_pod(uid: str, phase: str = "Running", padding: str = "") -> NodePod:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": {"padding": padding}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "busybox"}]},
        "status": {"phase": phase},
    }
    return NodePod(uid, "default", uid, ("main",), msgspec.json.encode(body))


def read(pod: bytes) -> tuple[str, str | None]:
    """uid and phase, as a client of core/v1 reads them."""
    told = decode_message(message_of("v1", "Pod"), pod)
    return told["metadata"]["uid"], (told.get("status") or {}).get("phase")


@asynccontextmanager
async def serving(rate: float = 0.0, watch_burst: int = 64) -> AsyncIterator[tuple[NodePodFeed, grpc.aio.Channel]]:
    directory, metrics = Path(tempfile.mkdtemp(prefix="np", dir="/tmp")), FrontDoorMetrics(CollectorRegistry())
    feed = NodePodFeed(Watchers(QUEUE, WatchQuota(100)))
    address = SocketOptions(directory / "pods-api.sock", directory / "inner")
    limiters = FairLimiter(rate, 10), FairLimiter(rate, watch_burst)
    endpoint = Endpoint(address, limiters, metrics, silent_log())
    methods = PodsMethods(feed, endpoint, metrics.pods_dropped, 0.3)
    server = FrontdoorServer(endpoint, (methods.service(),))
    await server.start()
    try:
        async with asyncio.timeout(100), unix_channel(address.public) as channel:
            yield feed, channel
    finally:
        await server.stop(0)
        shutil.rmtree(directory)


async def test_pods_api_list_get_and_watch_agree() -> None:
    async with serving() as (feed, channel):
        feed.on_snapshot([("u2", node_pod("u2")), ("u1", node_pod("u1"))], 0)
        listed = await LIST_PODS.unary(channel)(pb.ListPodsRequest())
        assert [read(pod) for pod in listed.pods] == [("u1", "Running"), ("u2", "Running")]
        got = await GET_POD.unary(channel)(pb.GetPodRequest(podUID="u2"))
        assert got.pod == listed.pods[1]
        watch = WATCH_PODS.stream(channel)(pb.WatchPodsRequest())
        first = [await watch.read() for _ in range(3)]
        assert [event.type for event in first] == [pb.ADDED, pb.ADDED, pb.INITIAL_SYNC_COMPLETE]
        assert [event.pod for event in first] == [*listed.pods, b""]
        feed.on_event(Event(Op.UPSERT, "u3", node_pod("u3", "Pending")))
        feed.on_event(Event(Op.UPSERT, "u3", node_pod("u3")))
        feed.on_event(Event(Op.UPSERT, "u3", node_pod("u3")))
        feed.on_event(Event(Op.DELETE, "u3", None))
        told = [await watch.read() for _ in range(3)]
        assert [(event.type, *read(event.pod)) for event in told] == [
            (pb.ADDED, "u3", "Pending"),
            (pb.MODIFIED, "u3", "Running"),
            (pb.DELETED, "u3", None),
        ]
        feed.on_snapshot([("u1", node_pod("u1", "Succeeded"))], 0)
        after = [await watch.read() for _ in range(2)]
        assert [(event.type, read(event.pod)[0]) for event in after] == [(pb.DELETED, "u2"), (pb.MODIFIED, "u1")]
        watch.cancel()


async def test_pods_api_before_sync_answers_nothing() -> None:
    async with serving() as (feed, channel):
        watch = WATCH_PODS.stream(channel)(pb.WatchPodsRequest())
        for call in (
            LIST_PODS.unary(channel)(pb.ListPodsRequest()),
            GET_POD.unary(channel)(pb.GetPodRequest(podUID="u1")),
            watch.read(),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as early:
                await call
            assert early.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        feed.on_snapshot([], 0)
        assert list((await LIST_PODS.unary(channel)(pb.ListPodsRequest())).pods) == []
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await GET_POD.unary(channel)(pb.GetPodRequest(podUID="u1"))
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


async def test_pods_api_slow_watcher_is_ended_alone() -> None:
    async with serving() as (feed, channel):
        feed.on_snapshot([], 0)
        deaf, good = (WATCH_PODS.stream(channel)(pb.WatchPodsRequest()) for _ in range(2))
        assert (await good.read()).type == (await deaf.read()).type == pb.INITIAL_SYNC_COMPLETE
        for number in range(60):
            feed.on_event(Event(Op.UPSERT, "u1", node_pod("u1", padding=str(number) + "x" * (1 << 18))))
            assert (await good.read()).type in (pb.ADDED, pb.MODIFIED)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await read_to_the_end(deaf)
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        good.cancel()


async def read_to_the_end(watch: Any) -> None:
    while True:
        await watch.read()


async def test_pods_api_unary_calls_have_kubelets_rate() -> None:
    async with serving(rate=100.0) as (feed, channel):
        feed.on_snapshot([], 0)
        calls = (LIST_PODS.unary(channel)(pb.ListPodsRequest()) for _ in range(400))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        refused = [error for error in answers if isinstance(error, grpc.aio.AioRpcError)]
        assert 10 <= len(answers) - len(refused) < 400
        assert {(error.code(), error.details()) for error in refused} == {
            (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        }


async def test_pods_api_watches_opened_one_after_the_other_are_limited() -> None:
    async with serving(rate=0.001, watch_burst=1) as (feed, channel):
        feed.on_snapshot([], 0)
        first = WATCH_PODS.stream(channel)(pb.WatchPodsRequest())
        assert (await first.read()).type == pb.INITIAL_SYNC_COMPLETE
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await read_to_the_end(WATCH_PODS.stream(channel)(pb.WatchPodsRequest()))
        error = refused.value
        assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
