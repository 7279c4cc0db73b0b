"""A link to a server that delivers its answers late: a TCP proxy in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

CHUNK = 64 * 1024


class SlowLink:
    def __init__(self, target: int) -> None:
        """`target` is a port of this machine."""
        self.delay = 0.0
        """Seconds by which answers are late that arrive from now on."""
        self.port = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._end = asyncio.Event()

    def open(self) -> None:
        self._thread.start()
        self._started.wait(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._end.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ways = (self._copy(reader, far_writer), self._deliver(far_reader, writer))
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.close()
        writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _deliver(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Deliver in order, each piece late by the delay that held when it came: many are under way at once."""
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, data = await late.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                writer.write(data)
                await writer.drain()

        sending = self._loop.create_task(send())
        try:
            while data := await reader.read(CHUNK):
                late.put_nowait((self._loop.time() + self.delay, data))
        finally:
            sending.cancel()
            writer.close()


@contextlib.contextmanager
def slow_link(target: int) -> Iterator[SlowLink]:
    link = SlowLink(target)
    link.open()
    try:
        yield link
    finally:
        link.close()
