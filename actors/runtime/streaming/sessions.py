"""Exec and Attach: one client's channels joined to the descriptors of a command or of the container."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import aiohttp
import msgspec

from actors.runtime.model.containers import Container, ContainerBackend
from actors.runtime.model.errors import ExecFailed, RuntimeFault
from actors.runtime.state.lifecycle import wait_ended
from actors.runtime.streaming.stdio import PipeReader, Pipes, Stdio, Terminal, Writer, set_size
from protocols.process.tasks import awaited, cancel
from protocols.streams.channels import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Size,
    exit_status,
    failure_status,
    read_size,
)
from protocols.streams.connections import Socket


class Sink(Protocol):
    """Destination of a client's input, resizes and end of input."""

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    def resize(self, size: Size) -> None: ...


async def receive_input(socket: Socket, sink: Sink) -> None:
    """Pass messages to the sink until the client goes away; a full sink blocks the client."""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == STDIN and data:
            await sink.write(data)
        elif channel == RESIZE and (size := read_size(data)) is not None:
            sink.resize(size)
        elif channel == CLOSE and data[:1] == bytes([STDIN]):
            await sink.end_input()


async def send_output(socket: Socket, channel: int, reader: PipeReader) -> None:
    """Send all output; a client that does not read blocks the writer."""
    prefix = bytes([channel])
    async for data in reader.chunks():
        await socket.send_bytes(prefix + data)


async def run_session(
    socket: Socket,
    sink: Sink,
    readers: dict[int, PipeReader],
    outcome: Callable[[], Coroutine[Any, Any, bytes]],
) -> None:
    """Run both directions until `outcome` returns the final Status or the client goes away."""
    client = awaited(receive_input(socket, sink))
    outputs = [awaited(send_output(socket, channel, reader)) for channel, reader in readers.items()]
    end = awaited(outcome())
    try:
        await asyncio.wait((client, end), return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            return
        for reader in readers.values():
            reader.finish()
        await asyncio.wait((client, asyncio.gather(*outputs)), return_when=asyncio.FIRST_COMPLETED)
        if not client.done():
            await socket.send_bytes(bytes([ERROR]) + end.result())
    except ConnectionError:
        return
    finally:
        await cancel(client, end, *outputs)


class Exec(msgspec.Struct, frozen=True):
    """Parameters of an Exec stream."""

    container: Container
    backend: ContainerBackend
    command: tuple[str, ...]
    stdin: bool
    outputs: tuple[int, ...]
    """Channels that the client reads."""
    terminal: bool


async def run_exec(socket: Socket, request: Exec) -> None:
    """Run a command for one client; its exit code ends the session on the error channel."""
    stdio: Stdio = Terminal() if request.terminal else Pipes(request.stdin, request.outputs)
    try:
        async with request.backend.start_exec(
            request.container, list(request.command), stdio.ends, stdio.terminal
        ) as ended:
            stdio.close_child_ends()
            await run_session(socket, stdio, stdio.readers, lambda: _exec_outcome(ended))
    except RuntimeFault as error:
        await socket.send_bytes(bytes([ERROR]) + failure_status(str(error)))
    finally:
        stdio.close()


async def _exec_outcome(ended: "asyncio.Future[int]") -> bytes:
    try:
        return exit_status(await asyncio.shield(ended))
    except ExecFailed as error:
        return failure_status(str(error))


ENDING_S = 2.0
"""The output of an ending container closes slightly before its end is known."""


class Attach(msgspec.Struct, frozen=True):
    """Parameters of an Attach stream."""

    container: Container
    backend: ContainerBackend
    stdin: bool
    outputs: tuple[int, ...]


class _Input:
    """Sink for the container's stdin or terminal; `descriptor` is -1 if it has neither."""

    def __init__(self, request: Attach, descriptor: int) -> None:
        self._request = request
        self._descriptor = descriptor
        self._writer = Writer(descriptor) if descriptor >= 0 and request.stdin else None

    async def write(self, data: bytes) -> None:
        if self._writer is not None:
            await self._writer.write(data)

    async def end_input(self) -> None:
        """Close the container's stdin with its first client (stdinOnce); otherwise leave it open for others."""
        if self._writer is not None and self._request.container.config.stdin_once:
            with contextlib.suppress(ExecFailed):  # it has ended
                self._request.backend.close_input(self._request.container)
            self.close()

    def close(self) -> None:
        self._writer = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def resize(self, size: Size) -> None:
        if self._descriptor >= 0:
            set_size(self._descriptor, size)


async def run_attach(socket: Socket, request: Attach) -> None:
    """Join a client to a running container until one of them ends."""
    ends = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
    given = [writable for _, writable in ends]
    try:
        async with request.backend.attach(request.container, (given[0], given[1])) as descriptor:
            while given:
                os.close(given.pop())
            readers = {channel: PipeReader(end[0]) for channel, end in zip((STDOUT, STDERR), ends, strict=True)}
            selected = {channel: reader for channel, reader in readers.items() if channel in request.outputs}
            sink = _Input(request, descriptor)
            try:
                await run_session(socket, sink, selected, lambda: _attach_outcome(request.container, selected))
            finally:
                await sink.end_input()
                sink.close()
    except RuntimeFault as error:
        await socket.send_bytes(bytes([ERROR]) + failure_status(str(error)))
    finally:
        for descriptor in (*given, *(readable for readable, _ in ends)):
            os.close(descriptor)


async def _ended(reader: PipeReader) -> bool:
    return await reader.ended.wait()


async def _attach_outcome(container: Container, readers: dict[int, PipeReader]) -> bytes:
    """Wait for the container or its output to end.

    The exit code is in the container's status, not here. The shim detaches a client that stops reading.
    """
    ends: list[asyncio.Future[bool]] = [awaited(_ended(reader)) for reader in readers.values()]
    ends.append(awaited(wait_ended(container, None)))
    try:
        await asyncio.wait(ends[-1:] if container.config.tty else ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    if await wait_ended(container, ENDING_S):
        return exit_status(0)
    return failure_status("this client has stopped reading; attach again")
