"""The played kubelet of drivers asks a socket once somebody listens there."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from supervisor.conform.dra.driver_kubelet import DriverAttempt, DriverKubelet
from supervisor.conform.exchange import ExchangeRecorder
from supervisor.conform.registry import identity_of


@pytest.fixture
def directory() -> Iterator[Path]:
    with TemporaryDirectory(prefix="np", dir="/tmp") as path:
        yield Path(path)


async def test_socket_that_is_bound_is_asked_when_it_listens(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server binds and listens by two calls; on a busy machine the socket is found in between."""
    objects: Any = None
    kubelet = DriverKubelet(directory, ExchangeRecorder(), 5.0, objects, [])
    path = directory / "driver-reg.sock"
    peer: Any = object()

    async def attempt(path: Path) -> DriverAttempt:
        return DriverAttempt(socket=path, peer=peer)

    monkeypatch.setattr(kubelet, "_attempt", attempt)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        async with asyncio.TaskGroup() as group:
            group.create_task(kubelet._sockets.register(path, identity_of(path)))
            await asyncio.sleep(0.3)
            assert kubelet.attempts == []
            bound.listen()
    assert [each.socket for each in kubelet.attempts] == [path]
