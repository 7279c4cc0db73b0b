"""Attach: the output of a container's own process, from now on, and its input if it has one."""

import asyncio
import os

import msgspec

from actors.runtime.model.errors import RuntimeFault
from actors.runtime.model.types import Container, Driver
from actors.runtime.state.lifecycle import wait_ended
from actors.runtime.streaming.descriptors import Reader, Writer
from actors.runtime.streaming.session import converse
from actors.runtime.streaming.stdio import set_size
from protocols.streams.channels import ERROR, STDERR, STDOUT, Size, exit_status, failure_status
from protocols.streams.join import Socket

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


async def run(socket: Socket, what: Attach) -> None:
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
                await converse(socket, sink, wanted, lambda: _outcome(what.container, wanted))
            finally:
                sink.close()
    except RuntimeFault as error:
        await socket.send_bytes(bytes([ERROR]) + failure_status(str(error)))
    finally:
        for descriptor in (*given, *(readable for readable, _ in ends)):
            os.close(descriptor)


async def _ended(reader: Reader) -> bool:
    return await reader.ended.wait()


async def _outcome(container: Container, readers: dict[int, Reader]) -> bytes:
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
