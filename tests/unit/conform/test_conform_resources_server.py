"""The played server of pod resources: what it counts, and when."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import grpc.aio
import pytest

from protocols.wire import podresources_v1_pb2 as pb
from protocols.wire.methods import unix_channel
from protocols.wire.pod_resources import GET, LIST_AND_WATCH
from supervisor.conform.agent.resources_server import ResourcesServer
from supervisor.conform.exchange import ExchangeRecorder
from supervisor.conform.profiles import PROFILES


async def test_stream_is_open_as_soon_as_its_call_is_counted(tmp_path: Path) -> None:
    server = ResourcesServer(tmp_path, Mock(), PROFILES["generic"])
    seen: list[tuple[int, int]] = []

    async def headers(metadata: Any) -> None:
        seen.append((len(server.calls), server.open))
        raise ConnectionResetError

    context = Mock(send_initial_metadata=headers, invocation_metadata=lambda: (("x", "y"),))
    with pytest.raises(ConnectionResetError):
        await anext(server._stream(LIST_AND_WATCH)(pb.ListAndWatchPodResourcesRequest(), context))
    assert seen == [(1, 1)]
    assert server.open == 0


async def test_get_of_an_unknown_pod_fails_as_kubelets_does(tmp_path: Path) -> None:
    server = ResourcesServer(tmp_path, ExchangeRecorder(), PROFILES["generic"])
    server.pods.add("there")
    await server.start()
    try:
        async with unix_channel(server.socket) as channel:
            get: Any = channel.unary_unary(GET.path, GET.request.SerializeToString, GET.reply.FromString)
            known = await get(GET.request(pod_namespace="conform", pod_name="there"))
            assert known.pod_resources.name == "there"
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await get(GET.request(pod_namespace="conform", pod_name="gone"))
    finally:
        await server.stop()
    assert failure.value.code() is grpc.StatusCode.UNKNOWN
    assert failure.value.details() == "pod gone in namespace conform not found"
    assert [exchange.record.status for exchange in server.recorder.take()[0]] == ["OK", "UNKNOWN"]
