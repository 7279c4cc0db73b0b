"""Simulated ("hollow") containers without a process, which follow a script in annotations.

Tens of thousands fit in one runtime. Their state is written without fsync; it survives kill -9 of the runtime.
"""

import asyncio
import contextlib
import functools
import os
import signal
import time
from collections.abc import AsyncGenerator

from actors.runtime.model.containers import Container, ContainerState, ExecResult
from actors.runtime.model.errors import StateNotWritten
from actors.runtime.shim.streams import stamp
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import Lifecycle

NS = 1_000_000_000


class HollowBackend:
    """Backend of simulated containers; timers end them as their script says."""

    def __init__(self, lifecycle: Lifecycle, state: StateDirectory) -> None:
        self._lifecycle = lifecycle
        self._state = state
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def start(self, container: Container) -> None:
        if container.hollow is not None and container.hollow.log and container.log_path:
            write_log(container.log_path, container.hollow.log, time.time_ns())
        self._lifecycle.started(container, time.time_ns())
        self._save(container)
        self._arm(container)

    def signal(self, container: Container, number: int) -> None:
        self._end(container, time.time_ns(), 128 + number)

    def kill(self, container: Container) -> None:
        self.signal(container, signal.SIGKILL)

    def abandon(self, container: Container) -> None:
        self.kill(container)

    async def reopen_log(self, container: Container) -> None:
        """Do nothing: a simulated container logs only at its start."""

    async def exec_sync(self, container: Container, command: list[str], timeout: float) -> ExecResult:
        """Run nothing and succeed, so that exec probes of simulated pods succeed."""
        return ExecResult(b"", b"", 0)

    @contextlib.asynccontextmanager
    async def start_exec(
        self, container: Container, command: list[str], ends: tuple[int, int, int], terminal: bool
    ) -> AsyncGenerator["asyncio.Future[int]", None]:
        """Run nothing and succeed at once, without output."""
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        ended.set_result(0)
        yield ended

    @contextlib.asynccontextmanager
    async def attach(self, container: Container, outputs: tuple[int, int]) -> AsyncGenerator[int, None]:
        """Yield no descriptor, since there is no input; the output stays open, and empty, until the client leaves."""
        held = [os.dup(descriptor) for descriptor in outputs]
        try:
            yield -1
        finally:
            for descriptor in held:
                os.close(descriptor)

    def close_input(self, container: Container) -> None:
        """Do nothing: there is no input."""

    async def forget(self, container: Container) -> None:
        self._disarm(container)

    def adopt(self, container: Container) -> None:
        """Continue a script after a restart; a container whose time has passed ends at once."""
        if container.life.state is ContainerState.RUNNING:
            self._arm(container)

    def _arm(self, container: Container) -> None:
        script = container.hollow
        if script is None or not script.duration_ns:
            return
        at = container.life.started_at + script.duration_ns
        left = min(at - time.time_ns(), script.duration_ns) / NS  # after a step of the clock back, `at` is further away
        if left <= 0:
            self._end(container, at, script.exit_code, script.oom_killed)
        else:
            loop = asyncio.get_running_loop()
            end = functools.partial(self._end, container, at, script.exit_code, script.oom_killed)
            self._timers[container.id] = loop.call_later(left, end)

    def _disarm(self, container: Container) -> None:
        if timer := self._timers.pop(container.id, None):
            timer.cancel()

    def _end(self, container: Container, at: int, code: int, oom_killed: bool = False) -> None:
        self._disarm(container)
        self._lifecycle.exited(container, at, code, oom_killed)
        self._save(container)

    def _save(self, container: Container) -> None:
        try:
            self._state.save_hollow(container.record)
        except StateNotWritten:
            return  # disk full: the life continues in memory, and after a restart from the last state on disk


def write_log(path: str, lines: tuple[str, ...], now_ns: int) -> None:
    """Append CRI log lines; lines that cannot be written are lost, as for every container."""
    at = stamp(now_ns)
    data = b"".join(b"%s stdout F %s\n" % (at, line.encode(errors="surrogateescape")) for line in lines)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o640), "wb") as file:
            file.write(data)
