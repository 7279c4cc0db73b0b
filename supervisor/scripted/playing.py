"""What every scripted stand-in does around its own work: plays its script, ends by a signal, dies as if killed."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import grpc.aio

from supervisor.scripted.timeline import Timeline
from supervisor.scripted.types import Step

S = TypeVar("S", bound=Step)
Say = Callable[[str], None]


async def play(timeline: Timeline[S], perform: Callable[[S], Awaitable[None]], say: Say) -> int:
    """Each step at its time, from now on. The exit code a step asks for; else it never ends."""
    begun = time.monotonic()
    while True:
        for step in timeline.due(time.monotonic() - begun):
            await perform(step)
            if step.exit is not None:
                return step.exit
        wait = timeline.wait(time.monotonic() - begun)
        if wait is None:
            say("the script is over")
            await asyncio.Event().wait()
        await asyncio.sleep(wait or 0.0)


async def until_one_ends(
    ends: Iterable[asyncio.Task[int]], tasks: Iterable[asyncio.Task[None]], stop: Callable[[], Awaitable[None]]
) -> int:
    """The exit code of the first of `ends`; any of all may fail. The others are cancelled, then `stop` is awaited."""
    every: list[asyncio.Task[int] | asyncio.Task[None]] = [*ends, *tasks]
    try:
        done, _ = await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        return max(task.result() or 0 for task in done)
    finally:
        for task in every:
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)
        await stop()


async def signalled() -> int:
    """SIGTERM or SIGINT came: a clean end."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    return 0


async def cut(server: grpc.aio.Server, path: Path) -> None:
    """Ends as by kill -9: no last word, and the socket is left behind, which gRPC would remove."""
    aside = path.with_name(f".{path.name}.cut")
    os.rename(path, aside)
    await server.stop(None)
    os.rename(aside, path)
