"""Run containers as Linux processes, each below a shim that outlives the runtime."""

import asyncio
import logging
import os
import socket
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from actors.runtime.backends.holders import Holders
from actors.runtime.backends.launcher import LauncherHandle
from actors.runtime.backends.procfs import descendants, kill_process, kill_session
from actors.runtime.backends.shim_connection import Started, connect, read_exit, read_started
from actors.runtime.backends.shim_process import ShimProcess, apply_exit, trace
from actors.runtime.cgroups.hierarchy import Cgroups
from actors.runtime.cgroups.pods import PodGroup, pod_group
from actors.runtime.model.containers import Container, ContainerState, ExecResult
from actors.runtime.model.errors import ExecFailed, LauncherGone, StartFailed, StateNotWritten, WrongState
from actors.runtime.shim import channel
from actors.runtime.spec import command, isolation
from actors.runtime.spec.isolation import Surroundings
from actors.runtime.spec.sysctls import kernel_paths
from actors.runtime.state.directory import StateDirectory
from actors.runtime.state.lifecycle import Lifecycle
from protocols.process.tasks import Tasks
from protocols.wire import cri_pb2 as pb

START_DEADLINE_S = 30.0
ADOPT_DEADLINE_S = 5.0
STARTS_AT_ONCE = 16
"""More would only queue in the launcher's socket instead of here."""

_LOG = logging.getLogger("runtime")


class ProcessBackend:
    """Backend of processes: starts shims, STARTS_AT_ONCE at a time, and passes requests to them."""

    def __init__(self, lifecycle: Lifecycle, state: StateDirectory, launcher: LauncherHandle, cgroups: Cgroups) -> None:
        self.cgroups = cgroups
        self._lifecycle = lifecycle
        self._state = state
        self._launcher = launcher
        self.holders = Holders(launcher, state)
        self._processes: dict[str, ShimProcess] = {}
        self._starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self._clean_ups = Tasks()

    async def start(self, container: Container) -> None:
        async with self._starting:
            self._prepare(container, await self._surroundings(container))
            try:
                await self._launch(container)
            except LauncherGone:  # the shim died before go: nothing has started
                await self._launch(container)
        if container.life.reason == "StartError":
            self.cgroups.remove(container.id, self._pod_group(container))
            raise StartFailed(container.life.message)

    def signal(self, container: Container, number: int) -> None:
        if process := self._processes.get(container.id):
            process.shim.send("signal", signal=number)

    def kill(self, container: Container) -> None:
        if process := self._processes.get(container.id):
            process.shim.send("kill")

    def abandon(self, container: Container) -> None:
        if process := self._processes.get(container.id):
            kill_process(process.shim.pid)

    async def reopen_log(self, container: Container) -> None:
        if error := await self._process(container).call("reopen"):
            raise StateNotWritten(error)

    async def exec_sync(self, container: Container, command: list[str], timeout: float) -> ExecResult:
        return await self._process(container).exec_sync(command, timeout)

    def start_exec(
        self, container: Container, command: list[str], ends: tuple[int, int, int], terminal: bool
    ) -> AbstractAsyncContextManager["asyncio.Future[int]"]:
        return self._process(container).start_exec(command, ends, terminal)

    def attach(self, container: Container, outputs: tuple[int, int]) -> AbstractAsyncContextManager[int]:
        return self._process(container).attach(outputs)

    def close_input(self, container: Container) -> None:
        self._process(container).close_input()

    async def forget(self, container: Container) -> None:
        if process := self._processes.pop(container.id, None):
            process.shim.close()
        self.cgroups.remove(container.id, self._pod_group(container))
        await asyncio.to_thread(self._state.remove_shim, container.id)

    def update(self, container: Container) -> str:
        """Apply changed resources; return why memory could not be limited, empty if it was."""
        shim = self.shim_pid(container)
        pids = descendants(shim) if shim else ()
        pod = self._pod_group(container)
        fault = self.cgroups.update(container.id, container.config.linux.resources, pids, pod)
        self._send_groups(container)
        return fault

    def _send_groups(self, container: Container) -> None:
        """Send the shim the cgroups that later commands join, and the file that shows that memory ran out."""
        joined = self.cgroups.joined(container.id, self._pod_group(container))
        if joined.groups and (process := self._processes.get(container.id)):
            process.shim.send("cgroups", groups=joined.groups, oom=joined.oom)

    def _pod_group(self, container: Container) -> PodGroup:
        return pod_group(container.sandbox.config, self.cgroups.unified)

    def main_pid(self, container: Container) -> int:
        """Return the pid of the container's first process, 0 unless it runs."""
        process = self._processes.get(container.id)
        return process.shim.main if process and container.life.state is ContainerState.RUNNING else 0

    def spec_file(self, container: Container) -> Path:
        """Return the path of what the container's shim executes; it exists from the start on."""
        return self._state.shim(container.id) / channel.SPEC_FILE

    def shim_pid(self, container: Container) -> int:
        """Return the shim's pid, 0 if unknown."""
        process = self._processes.get(container.id)
        return process.shim.pid if process else 0

    async def adopt(self, container: Container) -> None:
        """Take over a running shim after a restart, or read the record files of one that has ended."""
        directory = self._state.shim(container.id)
        began = read_started(directory)
        connection = connect(directory)
        if began is not None and began.started_at:
            self._lifecycle.started(container, began.started_at)
        if end := read_exit(directory):
            apply_exit(self._lifecycle, container, end)
        elif connection is not None:
            await self._follow_shim(container, connection, began)
            return
        elif began is not None:
            self._lifecycle.lost(container, time.time_ns())
            self._on_lost(container, began)
        if connection is not None:
            connection.close()

    async def _follow_shim(self, container: Container, connection: socket.socket, began: Started | None) -> None:
        process = self._attach(container, connection)
        process.shim.pid, process.shim.main = (began.shim, began.pid) if began else (0, 0)
        self._send_groups(container)  # an update may have been cut short
        if container.life.state is ContainerState.CREATED:  # the runtime was killed during the start
            await asyncio.wait([process.startup], timeout=ADOPT_DEADLINE_S)

    async def _surroundings(self, container: Container) -> Surroundings:
        """Collect what the configuration does not have, with a holder of the pod's namespaces if it needs one."""
        sandbox, options = container.sandbox, container.config.linux.security_context.namespace_options
        shared = isolation.PID in isolation.requested_namespaces(sandbox.config)
        surroundings = Surroundings(str(self._state.shim(container.id)), container.record.nodes)
        if kernel_paths(sandbox.config.linux.sysctls) or (shared and options.pid == pb.POD):
            holder = await self.holders.ensure(sandbox)
            pid_of = holder.pid if shared and options.pid == pb.POD else 0
            surroundings = surroundings._replace(
                pid_of=pid_of, ipc_of=holder.pid if holder.ipc and options.ipc != pb.NODE else 0
            )
        if shared and options.pid == pb.TARGET:
            surroundings = surroundings._replace(pid_of=self._target(container, options.target_id))
        return surroundings

    def _target(self, container: Container, id: str) -> int:
        target = container.sandbox.containers.get(id)
        if target is None or not (pid := self.main_pid(target)):
            raise WrongState(f'target container "{id}" does not run in sandbox "{container.sandbox.id}"')
        return pid

    def _prepare(self, container: Container, around: Surroundings) -> None:
        directory = self._state.shim(container.id)
        try:
            membership = self.cgroups.make(container.id, container.config.linux.resources, self._pod_group(container))
            around = around._replace(views=membership.views)
            spec = msgspec.json.encode(command.spec(container, container.image, membership, around))
            directory.mkdir(mode=0o700, exist_ok=True)
            (directory / channel.SOCKET_FILE).unlink(missing_ok=True)  # of a shim that was killed before go
            (directory / channel.SPEC_FILE).write_bytes(spec)
            if names := isolation.resolv_conf(container.sandbox.config):
                (directory / isolation.RESOLV_FILE).write_text(names)
                (directory / isolation.RESOLV_FILE).chmod(0o644)
        except OSError as error:
            raise StateNotWritten(f"cannot write {directory}: {os.strerror(error.errno or 0).lower()}") from None

    async def _launch(self, container: Container) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = self._attach(container, ours)
        try:
            self._launcher.launch_shim(self._state.shim(container.id), theirs)
        finally:
            theirs.close()
        try:
            async with asyncio.timeout(START_DEADLINE_S):
                await process.startup
        except TimeoutError:
            self.kill(container)
            self._lifecycle.start_failed(container, time.time_ns(), "the container's shim did not answer")

    def _attach(self, container: Container, connection: socket.socket) -> ShimProcess:
        directory = self._state.shim(container.id)
        process = ShimProcess(container, connection, directory, self._lifecycle, self._on_lost)
        self._processes[container.id] = process
        return process

    def _process(self, container: Container) -> ShimProcess:
        if process := self._processes.get(container.id):
            return process
        raise ExecFailed("the container is ending")

    def _on_lost(self, container: Container, began: Started) -> None:
        why = trace(self._state.shim(container.id))
        _LOG.warning("shim ended without an exit record container=%s%s", container.id[:12], why)
        self._clean_ups.start(self._clean_up(container, began), "clean-up", container.id)

    async def _clean_up(self, container: Container, began: Started) -> None:
        await asyncio.to_thread(kill_session, began.pid, began.ticks, began.boot)
        try:
            async with container.writing:
                if not container.removing:
                    await asyncio.to_thread(self._state.save, container.record)
        except StateNotWritten as error:
            _LOG.error("%s", error)
