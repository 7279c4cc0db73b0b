"""The played server of pod resources: what it counts, and when."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from protocols.wire import podresources_v1_pb2 as pb
from protocols.wire.pod_resources import LIST_AND_WATCH
from supervisor.conform.agent.resources_server import ResourcesServer
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
