"""One thread that does what it is given, in order, and tells the event loop: one wake-up each way."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Any]
Done = Callable[[Any, BaseException | None], None]
"""Called in the event loop, with what the work returned, or with what it raised."""


class Hand:
    """Begins with the first work; `stop()` ends it after what it has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def do(self, work: Work, done: Done) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True).start()
        self._work.put((work, done))

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. It is done even if the caller is cancelled."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(answer: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)

        self.do(work, done)
        return await future

    def stop(self) -> None:
        self._work.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            answer, error = None, None
            try:
                answer = work()
            except BaseException as caught:  # told to whoever asked for it
                error = caught
            loop.call_soon_threadsafe(done, answer, error)
