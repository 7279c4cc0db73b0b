"""Keeps GetContainerEvents open and hands every message on; tells how the stream fares."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc.aio

from actors.cri.channel import RuntimeChannel, messages
from actors.cri.connection import Connection, Phase

SOCKET_PROBE_S = 0.05
SOCKET_PROBES = 200


@dataclass(frozen=True)
class EventStreamOptions:
    channel: RuntimeChannel
    on_message: Callable[[bytes], None]
    on_change: Callable[[Connection, str], None]
    """Called with the state and, when it is not well, the reason."""


class EventStream:
    def __init__(self, options: EventStreamOptions) -> None:
        self._options = options
        self.connection = Connection()
        self._again = asyncio.Event()

    def try_again(self) -> None:
        """Something changed (another runtime answered): do not wait for the table's delay."""
        self._again.set()

    async def run(self) -> None:
        while True:
            delay = await self._attempt()
            if delay > 0:
                await self._pause(delay)
            await self._options.channel.renew()
            self.connection.connecting()

    async def _attempt(self) -> float:
        try:
            await self._read()
            return self._broken("the runtime ended the event stream")
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                delay = self.connection.unsupported(time.monotonic())
                self._options.on_change(self.connection, "the runtime has no event stream")
                return delay
            return self._broken(f"{error.code().name}: {error.details()}")

    async def _read(self) -> None:
        call = self._options.channel.events()
        opening = asyncio.ensure_future(self._opened(call))
        try:
            async for message in messages(call):
                self._mark_open()
                self._options.on_message(message)
        finally:
            opening.cancel()
            call.cancel()

    async def _opened(self, call: "grpc.aio.UnaryStreamCall[bytes, bytes]") -> None:
        """Headers open the stream, but those of an immediate error do not: grpc merges them with the status."""
        await call.initial_metadata()
        await asyncio.sleep(0)
        if not call.done():
            self._mark_open()

    def _mark_open(self) -> None:
        if self.connection.phase is not Phase.STREAMING:
            self.connection.opened(time.monotonic())
            self._options.on_change(self.connection, "")

    def _broken(self, reason: str) -> float:
        delay = self.connection.failed(time.monotonic())
        self._options.on_change(self.connection, reason)
        return delay

    async def _pause(self, delay: float) -> None:
        """Wait as the table says, or less: until the runtime's socket listens again."""
        self._again.clear()
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._again.wait())]
        if self.connection.phase is Phase.BROKEN:
            waits.append(asyncio.ensure_future(self._listening()))
        try:
            await asyncio.wait(waits, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _listening(self) -> None:
        """Return when the socket accepts after it was seen not to; never otherwise (the delay decides then)."""
        path, away = self._options.channel.socket_path, False
        for _ in range(SOCKET_PROBES if path else 0):
            if _accepts(path):
                if away:
                    return
            else:
                away = True
            await asyncio.sleep(SOCKET_PROBE_S)
        await asyncio.Event().wait()


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
