"""Exec and Attach: one client's channels joined to the descriptors of a command or of the container."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp
import msgspec

from actors.runtime.model.containers import Container, Driver
from actors.runtime.model.errors import ExecFailed, RuntimeFault
from actors.runtime.state.lifecycle import wait_ended
from actors.runtime.streaming.stdio import Pipes, Reader, Stdio, Terminal, Writer, set_size
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
from protocols.streams.join import Socket


class Sink(Protocol):
    """What a client's messages act on."""

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    def resize(self, size: Size) -> None: ...


async def take_input(socket: Socket, sink: Sink) -> None:
    """Until the client goes away. A sink that is full holds the client back."""
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


async def give_output(socket: Socket, channel: int, reader: Reader) -> None:
    """To the reader's end. A client that does not read holds the writer back."""
    prefix = bytes([channel])
    async for data in reader.chunks():
        await socket.send_bytes(prefix + data)


async def converse(
    socket: Socket,
    sink: Sink,
    readers: dict[int, Reader],
    outcome: Callable[[], Awaitable[bytes]],
) -> None:
    """Both ways at once, until `outcome` gives the final Status or the client goes away; leaves nothing behind."""
    client = asyncio.ensure_future(take_input(socket, sink))
    outputs = [asyncio.ensure_future(give_output(socket, channel, reader)) for channel, reader in readers.items()]
    end = asyncio.ensure_future(outcome())
    try:
        await asyncio.wait((client, end), return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            return
        for reader in readers.values():
            reader.last_call()
        await asyncio.wait((client, asyncio.gather(*outputs)), return_when=asyncio.FIRST_COMPLETED)
        if not client.done():
            await socket.send_bytes(bytes([ERROR]) + end.result())
    except ConnectionError:
        return
    finally:
        tasks = [client, end, *outputs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Exec(msgspec.Struct, frozen=True):
    """What an Exec ticket stands for."""

    container: Container
    driver: Driver
    command: tuple[str, ...]
    stdin: bool
    outputs: tuple[int, ...]
    """Channels the client wants to read."""
    terminal: bool


async def run_exec(socket: Socket, what: Exec) -> None:
    stdio: Stdio = Terminal() if what.terminal else Pipes(what.stdin, what.outputs)
    try:
        async with what.driver.running(what.container, list(what.command), stdio.ends, stdio.terminal) as ended:
            stdio.handed_over()
            await converse(socket, stdio, stdio.readers, lambda: _exec_outcome(ended))
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
"""The output of a container that ends closes a moment before its end is known."""


class Attach(msgspec.Struct, frozen=True):
    """What an Attach ticket stands for."""

    container: Container
    driver: Driver
    stdin: bool
    outputs: tuple[int, ...]


class _Input:
    """The container's stdin or terminal, written by whoever is attached. `descriptor` -1: it has none."""

    def __init__(self, what: Attach, descriptor: int) -> None:
        self._what = what
        self._descriptor = descriptor
        self._writer = Writer(descriptor) if descriptor >= 0 and what.stdin else None

    async def write(self, data: bytes) -> None:
        if self._writer is not None:
            await self._writer.write(data)

    async def end_input(self) -> None:
        """Only a container that wants one client (stdinOnce) sees that it has left."""
        if self._writer is not None and self._what.container.config.stdin_once:
            self._what.driver.close_input(self._what.container)
            self.close()

    def close(self) -> None:
        self._writer = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def resize(self, size: Size) -> None:
        if self._descriptor >= 0:
            set_size(self._descriptor, size)


async def run_attach(socket: Socket, what: Attach) -> None:
    ends = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
    given = [writable for _, writable in ends]
    try:
        async with what.driver.attached(what.container, (given[0], given[1])) as descriptor:
            while given:
                os.close(given.pop())
            readers = {channel: Reader(end[0]) for channel, end in zip((STDOUT, STDERR), ends, strict=True)}
            wanted = {channel: reader for channel, reader in readers.items() if channel in what.outputs}
            sink = _Input(what, descriptor)
            try:
                await converse(socket, sink, wanted, lambda: _attach_outcome(what.container, wanted))
            finally:
                sink.close()
    except RuntimeFault as error:
        await socket.send_bytes(bytes([ERROR]) + failure_status(str(error)))
    finally:
        for descriptor in (*given, *(readable for readable, _ in ends)):
            os.close(descriptor)


async def _ended(reader: Reader) -> bool:
    return await reader.ended.wait()


async def _attach_outcome(container: Container, readers: dict[int, Reader]) -> bytes:
    """How the container ended is told by its status, not here. The shim lets go of a client that stops reading."""
    ends: list[asyncio.Future[bool]] = [asyncio.ensure_future(_ended(reader)) for reader in readers.values()]
    ends.append(asyncio.ensure_future(wait_ended(container, None)))
    try:
        await asyncio.wait(ends[-1:] if container.config.tty else ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    if await wait_ended(container, ENDING_S):
        return exit_status(0)
    return failure_status("this client has stopped reading; attach again")
