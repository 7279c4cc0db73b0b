"""A runtime that misbehaves on order, as a process: before the embedded one, so its containers are real ones.

`python -m tests.support.lying_runtime UPSTREAM SOCKET DIALECT`. The file SOCKET.lie holds the name of the lie that
holds now (empty: none); every call is a line in SOCKET.calls. Use it through LyingRuntime.
"""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec

from protocols.process.tasks import wait_set
from protocols.wire import cri_pb2 as pb
from tests.support.dialects import Dialect
from tests.support.lies import (
    ENDS_STREAM,
    EVERY,
    HANGS,
    HOLDS_EVENTS,
    LIES,
    NO_EVENTS,
    REFUSED,
    SLOW_START,
    SLOW_START_S,
    LateOom,
    no_stamps,
)
from tests.support.runtime import RuntimeProcess
from tests.support.store_lab import listened_at
from tests.support.waiting import until_true

OPTIONS = [
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]
EVENTS = "GetContainerEvents"


class LyingRuntime:
    """`async with LyingRuntime(runtime, dialect) as liar:`; `liar.settings` are those of a node on it."""

    def __init__(self, runtime: RuntimeProcess, dialect: str = "") -> None:
        self._runtime = runtime
        self._dialect = dialect
        self.socket = runtime.root / "liar" / "cri.sock"
        self.settings = msgspec.structs.replace(
            runtime.settings, runtime_endpoint=f"unix://{self.socket}", runtime_embedded=False
        )
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> "LyingRuntime":
        self.socket.parent.mkdir(mode=0o700, exist_ok=True)
        self.lie("")
        self._process = self._spawn()
        await until_true(lambda: listened_at(self.socket), what="the lying runtime's socket")
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait, 30)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        arguments = [str(self._runtime.socket), str(self.socket), self._dialect]
        return subprocess.Popen([sys.executable, "-m", "tests.support.lying_runtime", *arguments])

    def lie(self, name: str) -> None:
        assert name in ("", *EVERY), name
        temporary = self.socket.with_suffix(".new")
        temporary.write_text(name)
        os.replace(temporary, self.socket.with_suffix(".lie"))

    def calls(self) -> Counter[str]:
        path = self.socket.with_suffix(".calls")
        return Counter(path.read_text().split()) if path.exists() else Counter()


class Front(grpc.GenericRpcHandler):
    """Passes everything on to `upstream`, and lies as the file says."""

    def __init__(self, upstream: grpc.aio.Channel, socket: Path, dialect: Dialect) -> None:
        self._upstream = upstream
        self._lie = socket.with_suffix(".lie")
        self._calls = os.open(socket.with_suffix(".calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._dialect = dialect
        self._news = asyncio.Event()
        self._late = LateOom()

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        if path.endswith(EVENTS):
            return grpc.unary_stream_rpc_method_handler(self._stream)

        async def unary(request: bytes, context: Any) -> bytes:
            return await self._unary(path, request, context)

        return grpc.unary_unary_rpc_method_handler(unary)

    async def listen(self) -> None:
        """Take in the true events, whoever reads them or not."""
        path = f"/runtime.v1.RuntimeService/{EVENTS}"
        stub: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._upstream.unary_stream(path)
        async for data in stub(b""):
            self._dialect.take(pb.ContainerEventResponse.FromString(data))
            self._news.set()

    async def _unary(self, path: str, request: bytes, context: Any) -> bytes:
        method, lie = path.rpartition("/")[2], self._lie.read_text()
        os.write(self._calls, f"{method}\n".encode())
        while lie == HANGS:
            await asyncio.sleep(0.1)
            lie = self._lie.read_text()
        if lie == SLOW_START and method == "StartContainer":
            await asyncio.sleep(SLOW_START_S)
        stub: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._upstream.unary_unary(path)
        try:
            reply = bytes(await stub(request, timeout=60))
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())
        if method in REFUSED.get(lie, ()):
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the answer to {method} was lost")
        if not self._dialect.stamps:
            reply = no_stamps(method, reply)
        if lie == LateOom.NAME:
            reply = self._late.unary(method, reply)
        return LIES[lie](method, reply) if lie in LIES else reply

    async def _stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        os.write(self._calls, f"{EVENTS}\n".encode())
        if self._lie.read_text() == NO_EVENTS:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "as told")
        if self._dialect.headers:
            await context.send_initial_metadata(())
        self._dialect.reads()
        try:
            while self._lie.read_text() not in ENDS_STREAM:
                self._news.clear()
                while self._dialect.queue and self._lie.read_text() not in HOLDS_EVENTS:
                    event = self._dialect.queue.popleft()
                    if self._lie.read_text() == LateOom.NAME:
                        self._late.hide(event.containers_statuses)
                    yield event.SerializeToString()
                await wait_set(self._news, 0.2)
        finally:
            self._dialect.leaves()


async def main(upstream: str, socket: str, dialect: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{upstream}", options=OPTIONS) as channel:
        front = Front(channel, Path(socket), Dialect(dialect))
        server = grpc.aio.server(handlers=[front], options=OPTIONS)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        await front.listen()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
