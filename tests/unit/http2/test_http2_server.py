"""The gRPC server over a unix socket, called by grpc.aio: answers, errors, deadlines, cancels, slow readers."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from protocols.http2 import server as server_module
from protocols.http2.server import GrpcServer, GrpcServerOptions, Method
from tests.support.waiting import until_true

ENDLESS = 10_000
PART = bytes(10_000)


class Methods:
    """Methods that note what became of them."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.finished: list[str] = []
        self.cancelled: list[str] = []
        self.made = 0
        self.go_on = asyncio.Event()

    async def echo(self, data: bytes) -> bytes:
        return data

    async def fail(self, data: bytes) -> bytes:
        raise ValueError(data.decode())

    async def wait(self, data: bytes) -> bytes:
        self.begun.add(data.decode())
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.append(data.decode())
            raise
        self.finished.append(data.decode())
        return data

    async def parts(self, data: bytes) -> AsyncGenerator[bytes, None]:
        try:
            for _ in range(ENDLESS):
                self.made += 1
                yield PART
        finally:
            self.cancelled.append("parts")

    def table(self) -> dict[str, Method]:
        return {
            "/s/Echo": Method(self.echo),
            "/s/Fail": Method(self.fail),
            "/s/Wait": Method(self.wait, cancelled=True),
            "/s/Finish": Method(self.wait),
            "/s/Parts": Method(stream=self.parts, cancelled=True),
        }


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[tuple[Methods, Any, GrpcServer]]:
    methods = Methods()
    options = GrpcServerOptions(methods.table(), lambda path, error: ("ABORTED", str(error)), 1 << 20)
    server = GrpcServer(options)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    await server.start(listening)
    async with asyncio.timeout(60), grpc.aio.insecure_channel(f"unix:{tmp_path / 's'}") as channel:
        yield methods, channel, server
    await server.close(0.0)


async def ask(channel: Any, name: str, data: bytes = b"x", timeout: float | None = None) -> Any:
    return await channel.unary_unary(f"/s/{name}")(data, timeout=timeout)


async def test_unary_calls_answer_side_by_side(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel, _server):
        bodies = [b"%d" % number * 2000 for number in range(50)]
        assert await asyncio.gather(*(ask(channel, "Echo", body) for body in bodies)) == bodies
        assert await ask(channel, "Echo", b"") == b""


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("Fail", grpc.StatusCode.ABORTED, "why % ü"),
        ("Missing", grpc.StatusCode.UNIMPLEMENTED, "unknown method /s/Missing"),
    ],
)
async def test_error_reaches_the_client(tmp_path: Path, name: str, code: grpc.StatusCode, text: str) -> None:
    async with serving(tmp_path) as (_, channel, _server):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(channel, name, "why % ü".encode())
        assert (raised.value.code(), raised.value.details()) == (code, text)
        assert await ask(channel, "Echo") == b"x"


async def test_deadline_cancels_only_what_ends_with_its_caller(tmp_path: Path) -> None:
    async with serving(tmp_path) as (methods, channel, _server):
        for name in ("Wait", "Finish"):
            seconds = 0.05
            while name not in methods.begun:  # on a busy machine a deadline may pass before the request is sent
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await ask(channel, name, name.encode(), timeout=seconds)
                assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                seconds *= 2
        await until_true(lambda: set(methods.cancelled) == {"Wait"})
        methods.go_on.set()
        await until_true(lambda: set(methods.finished) == {"Finish"})


async def test_client_that_leaves_cancels_only_what_ends_with_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (methods, channel, server):
        calls = [asyncio.ensure_future(ask(channel, name, name.encode())) for name in ("Wait", "Finish")]
        await until_true(lambda: len(server.tasks) == 2)
        await channel.close()
        await asyncio.gather(*calls, return_exceptions=True)
        await until_true(lambda: methods.cancelled == ["Wait"])
        methods.go_on.set()
        await until_true(lambda: methods.finished == ["Finish"])


async def test_stream_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as (methods, channel, _server):
        call = channel.unary_stream("/s/Parts")(b"")
        assert await call.read() == PART
        made = -1
        while made != methods.made:  # until it stands still
            made = methods.made
            await asyncio.sleep(0.2)
        assert 0 < made < ENDLESS
        assert await ask(channel, "Echo") == b"x"
        call.cancel()
        await until_true(lambda: methods.cancelled == ["parts"])


async def test_more_clients_than_the_bound_are_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS", 1)
    async with serving(tmp_path) as (_, channel, _server):
        assert await ask(channel, "Echo") == b"x"
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        assert await reader.read() == b""
        writer.close()


async def test_more_calls_than_the_bound_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "RUNNING", 1)
    async with serving(tmp_path) as (methods, channel, server):
        first = asyncio.ensure_future(ask(channel, "Wait"))
        await until_true(lambda: len(server.tasks) == 1)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(channel, "Echo")
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        methods.go_on.set()
        assert await first == b"x"


async def test_close_ends_calls_after_the_grace(tmp_path: Path) -> None:
    async with serving(tmp_path) as (methods, channel, server):
        call = asyncio.ensure_future(ask(channel, "Wait", b"Wait"))
        await until_true(lambda: len(server.tasks) == 1)
        await server.close(0.05)
        with pytest.raises(grpc.aio.AioRpcError):
            await call
        assert methods.cancelled == ["Wait"]
