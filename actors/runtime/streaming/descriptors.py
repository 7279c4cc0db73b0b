"""Pipes and terminals in the event loop: read as they fill, written as they drain, never blocking."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator

CHUNK = 32 * 1024
LINGER_S = 0.05
"""How long a terminal is read on after its command has ended: the kernel hands its last bytes over a little later."""


class Reader:
    """`chunks` ends at the end of the file, or after `last_call` when there is nothing more right now."""

    def __init__(self, descriptor: int, linger: float = 0.0) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._linger = linger
        self._last = False
        self.ended = asyncio.Event()
        """Nothing more will come."""
        self._wake = asyncio.Event()

    def last_call(self) -> None:
        """The writer has ended; whoever else holds the other end is not waited for."""
        self._last = True
        self._wake.set()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for data in self._read():
                yield data
        finally:
            self.ended.set()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        lingered = False
        while True:
            self._wake.clear()
            last = self._last  # before the read: what was written until then is there
            try:
                data = os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                if last and (lingered or not self._linger):
                    return
                lingered = last
                await self._readable(self._linger if last else None)
                continue
            except OSError:  # a terminal nobody has open any more
                return
            if not data:
                return
            yield data

    async def _readable(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, self._wake.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
        finally:
            loop.remove_reader(self._descriptor)


class Writer:
    """What nobody reads any more is dropped."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                await self._writable()
            except OSError:
                return

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._descriptor, _resolve, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)


def _resolve(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
