"""Containers as plain Linux processes, each below a shim that outlives this process."""

import asyncio
import logging
import os
import socket
import time
from contextlib import AbstractAsyncContextManager

import msgspec

from actors.runtime.backends.launching import LauncherHandle
from actors.runtime.backends.orphans import kill_process, kill_session
from actors.runtime.backends.shim_link import Started, connect, read_exit, read_started
from actors.runtime.backends.shim_process import Process, apply_exit, trace
from actors.runtime.backends.usage import descendants
from actors.runtime.cgroups.hierarchy import Cgroups
from actors.runtime.model.errors import ExecFailed, LauncherGone, StartFailed, StateNotWritten
from actors.runtime.model.states import State
from actors.runtime.model.types import Container, ExecResult
from actors.runtime.shim import record
from actors.runtime.spec import command
from actors.runtime.spec import isolation as mounting
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import Lifecycle

START_DEADLINE_S = 30.0
ADOPT_DEADLINE_S = 5.0
STARTS_AT_ONCE = 16
"""More would only wait for each other, in the launcher's socket instead of here."""

_LOG = logging.getLogger("runtime")


class ProcessDriver:
    def __init__(self, lifecycle: Lifecycle, state: StateDirectory, launcher: LauncherHandle, cgroups: Cgroups) -> None:
        self.cgroups = cgroups
        self._lifecycle = lifecycle
        self._state = state
        self._launcher = launcher
        self._processes: dict[str, Process] = {}
        self._starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self._clean_ups: set[asyncio.Task[None]] = set()

    async def start(self, container: Container) -> None:
        async with self._starting:
            self._prepare(container)
            try:
                await self._attempt(container)
            except LauncherGone:  # it died under our order and before go: nothing has started
                await self._attempt(container)
        if container.life.reason == "StartError":
            self.cgroups.remove(container.id)
            raise StartFailed(container.life.message)

    def signal(self, container: Container, number: int) -> None:
        if process := self._processes.get(container.id):
            process.link.order("signal", signal=number)

    def kill(self, container: Container) -> None:
        if process := self._processes.get(container.id):
            process.link.order("kill")

    def abandon(self, container: Container) -> None:
        if process := self._processes.get(container.id):
            kill_process(process.link.shim)

    async def reopen_log(self, container: Container) -> None:
        if error := await self._process(container).call("reopen"):
            raise StateNotWritten(error)

    async def execute(self, container: Container, command: list[str], timeout: float) -> ExecResult:
        return await self._process(container).execute(command, timeout)

    def running(
        self, container: Container, command: list[str], ends: tuple[int, int, int], terminal: bool
    ) -> AbstractAsyncContextManager["asyncio.Future[int]"]:
        return self._process(container).running(command, ends, terminal)

    def attached(self, container: Container, outputs: tuple[int, int]) -> AbstractAsyncContextManager[int]:
        return self._process(container).attached(outputs)

    def close_input(self, container: Container) -> None:
        self._process(container).close_input()

    async def forget(self, container: Container) -> None:
        if process := self._processes.pop(container.id, None):
            process.link.close()
        self.cgroups.remove(container.id)
        await asyncio.to_thread(self._state.remove_shim, container.id)

    def update(self, container: Container) -> str:
        """Its configuration has other resources now. Answers why its memory is not limited so, empty when it is."""
        shim = self.shim_pid(container)
        return self.cgroups.update(container.id, container.config.linux.resources, descendants(shim) if shim else ())

    def shim_pid(self, container: Container) -> int:
        """0 when none is known."""
        process = self._processes.get(container.id)
        return process.link.shim if process else 0

    async def adopt(self, container: Container) -> None:
        """After a restart: take over a living shim, or learn from the files of one that has ended."""
        directory = self._state.shim(container.id)
        began = read_started(directory)
        connection = connect(directory)
        if began is not None and began.started_at:
            self._lifecycle.started(container, began.started_at)
        if end := read_exit(directory):
            apply_exit(self._lifecycle, container, end)
        elif connection is not None:
            await self._listen_to(container, connection, began)
            return
        elif began is not None:
            self._lifecycle.lost(container, time.time_ns())
            self._on_lost(container, began)
        if connection is not None:
            connection.close()

    async def _listen_to(self, container: Container, connection: socket.socket, began: Started | None) -> None:
        process = self._attach(container, connection)
        process.link.shim = began.shim if began else 0
        if container.life.state is State.CREATED:  # the shim was caught in the middle of a start
            await asyncio.wait([process.settled], timeout=ADOPT_DEADLINE_S)

    def _prepare(self, container: Container) -> None:
        directory = self._state.shim(container.id)
        try:
            membership = self.cgroups.make(container.id, container.config.linux.resources)
            spec = msgspec.json.encode(command.spec(container, container.image, membership, str(directory)))
            directory.mkdir(mode=0o700, exist_ok=True)
            (directory / record.SOCKET).unlink(missing_ok=True)  # of a shim that was killed before it began
            (directory / record.SPEC).write_bytes(spec)
            if names := mounting.resolv(container.sandbox.config):
                (directory / mounting.RESOLV).write_text(names)
                (directory / mounting.RESOLV).chmod(0o644)
        except OSError as error:
            raise StateNotWritten(f"cannot write {directory}: {os.strerror(error.errno or 0).lower()}") from None

    async def _attempt(self, container: Container) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = self._attach(container, ours)
        try:
            self._launcher.order(self._state.shim(container.id), theirs)
        finally:
            theirs.close()
        try:
            await asyncio.wait_for(process.settled, START_DEADLINE_S)
        except TimeoutError:
            self.kill(container)
            self._lifecycle.start_failed(container, time.time_ns(), "the container's shim did not answer")

    def _attach(self, container: Container, connection: socket.socket) -> Process:
        directory = self._state.shim(container.id)
        process = Process(container, connection, directory, self._lifecycle, self._on_lost)
        self._processes[container.id] = process
        return process

    def _process(self, container: Container) -> Process:
        if process := self._processes.get(container.id):
            return process
        raise ExecFailed("the container is ending")

    def _on_lost(self, container: Container, began: Started) -> None:
        why = trace(self._state.shim(container.id))
        _LOG.warning("container %s: its shim ended without a record of the exit code%s", container.id[:12], why)
        task = asyncio.create_task(self._clean_up(container, began))
        self._clean_ups.add(task)
        task.add_done_callback(self._clean_ups.discard)

    async def _clean_up(self, container: Container, began: Started) -> None:
        await asyncio.to_thread(kill_session, began.pid, began.ticks, began.boot)
        try:
            await asyncio.to_thread(self._state.save, container.record)
        except StateNotWritten as error:
            _LOG.error("%s", error)
