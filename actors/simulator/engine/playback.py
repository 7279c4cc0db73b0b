"""Play a script: which steps are due when, and the life of a simulated process around its script."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import grpc.aio

from actors.simulator.engine.faults import Faults
from protocols.process.scripts import ScriptStep
from protocols.process.sockets import check_length, private_sockets

S = TypeVar("S", bound=ScriptStep)


class Timeline(Generic[S]):
    """Steps in order of time; with `repeat` > 0 the script starts again after that many seconds. Pure."""

    def __init__(self, steps: Iterable[S], repeat: float = 0.0) -> None:
        self._steps = sorted(steps, key=lambda step: step.at)
        self._repeat = repeat
        self._begun = 0.0
        self._next = 0

    def due(self, elapsed: float) -> list[S]:
        """Return the steps that became due since the last call, at most one round of the script."""
        steps = []
        while self._next < len(self._steps) and self._begun + self._steps[self._next].at <= elapsed:
            steps.append(self._steps[self._next])
            self._next += 1
        if self._over(elapsed):
            self._begun, self._next = self._begun + self._repeat, 0
        return steps

    def wait(self, elapsed: float) -> float | None:
        """Return the seconds until the next step is due; None = never."""
        if self._next < len(self._steps):
            return max(0.0, self._begun + self._steps[self._next].at - elapsed)
        return max(0.0, self._begun + self._repeat - elapsed) if self._repeat and self._steps else None

    def _over(self, elapsed: float) -> bool:
        done = self._next == len(self._steps)
        return bool(self._repeat and self._steps and done and self._begun + self._repeat <= elapsed)


Say = Callable[[str], None]


async def play(timeline: Timeline[S], perform: Callable[[S], Awaitable[None]], say: Say) -> int:
    """Perform each step at its time, from now on; return only with the exit code of a step."""
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


async def die_in_calls(
    faults: Faults, crash: Callable[[], Awaitable[None]], register: Callable[[], Awaitable[None]]
) -> None:
    """Crash when a call's fault says so, and register again when it says so. Never ends."""
    while True:
        restart = await faults.death()
        await crash()
        if restart:
            await asyncio.sleep(restart)
            await register()


async def until_one_ends(
    ends: Iterable[asyncio.Task[int]], tasks: Iterable[asyncio.Task[None]], stop: Callable[[], Awaitable[None]]
) -> int:
    """Return the exit code of the first of `ends`, or raise the first failure of any task.

    The other tasks are cancelled, then `stop` is awaited.
    """
    every: list[asyncio.Task[int] | asyncio.Task[None]] = [*ends, *tasks]
    try:
        done, _ = await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        return max(task.result() or 0 for task in done)
    finally:
        for task in every:
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)
        await stop()


async def listen(server: grpc.aio.Server, path: Path) -> None:
    """Start a server whose socket stays when it ends: gRPC removes only the path that it has bound.

    Raises SettingsInvalid for a path that is too long.
    """
    check_length(_bound(path))
    with private_sockets():
        server.add_insecure_port(f"unix:{_bound(path)}")
    await server.start()
    os.rename(_bound(path), path)


async def cut(server: grpc.aio.Server, path: Path) -> None:
    """Stop a server that `listen` has started as kill -9 does: without ending its streams, and with its socket.

    Unless connections are closed first, gRPC reports an ordinary end to clients, with various statuses.
    """
    _hang_up(str(_bound(path)))
    await server.stop(None)


def _bound(path: Path) -> Path:
    """Return where a socket is bound before it is moved into place: the node ignores hidden files."""
    return path.with_name(f".{path.name}")


def _hang_up(name: str) -> None:
    """Close each connection that this process has accepted on a unix socket."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # no socket, or closed by now
            sock = socket.socket(fileno=int(number))
            try:
                listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if sock.family == socket.AF_UNIX and sock.getsockname() == name and not listens:
                    sock.shutdown(socket.SHUT_RDWR)
            finally:
                sock.detach()
