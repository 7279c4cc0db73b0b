"""Holders of pods' namespaces: made for the first container that needs one, watched, killed with their sandbox."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec

from actors.runtime.backends.launcher import LauncherHandle
from actors.runtime.backends.procfs import kill_process
from actors.runtime.model.containers import Holder, Sandbox
from actors.runtime.model.errors import InvalidRequest, LauncherGone, WrongState
from actors.runtime.shim.system import start_ticks
from actors.runtime.spec.sysctls import kernel_paths
from actors.runtime.state.directory import StateDirectory
from protocols.process.proc import boot_id

DEADLINE_S = 20.0
_PACKET = 64 * 1024
_LOG = logging.getLogger("runtime")


class _Holding(msgspec.Struct, frozen=True):
    """First message of a holder. `pid` is 0 if it could not begin."""

    pid: int = 0
    ticks: int = 0
    error: str = ""


class Holders:
    """`on_lost` is called with a sandbox whose holder has ended by itself: its namespaces are gone."""

    def __init__(self, launcher: LauncherHandle, state: StateDirectory) -> None:
        self._launcher = launcher
        self._state = state
        self._boot = boot_id()
        self._locks: dict[str, asyncio.Lock] = {}
        self._watched: dict[str, int] = {}
        self.on_lost: Callable[[Sandbox], None] = lambda sandbox: None

    async def ensure(self, sandbox: Sandbox) -> Holder:
        """Return the sandbox's holder, started if it has none. Raises WrongState, InvalidRequest, LauncherGone."""
        async with self._locks.setdefault(sandbox.id, asyncio.Lock()):
            if sandbox.record.holder is None:
                try:
                    await self._start(sandbox)
                except LauncherGone:  # it died before go: nothing holds
                    await self._start(sandbox)
            holder = sandbox.record.holder
            if holder is None or not self._alive(sandbox):
                raise WrongState(f'sandbox "{sandbox.id}" has lost its namespaces; run a new one')
            return holder

    def adopt(self, sandbox: Sandbox) -> bool:
        """Watch the holder of a ready sandbox again after a restart; return False if it is gone."""
        if sandbox.record.holder is None:
            return True
        if not sandbox.ready:
            self.end(sandbox)
            return True
        return self._watch(sandbox)

    def end(self, sandbox: Sandbox) -> None:
        """Kill the holder, and with it what is left in its namespaces."""
        self._unwatch(sandbox.id)
        self._locks.pop(sandbox.id, None)
        if self._alive(sandbox) and (holder := sandbox.record.holder):
            kill_process(holder.pid)

    def close(self) -> None:
        """Watch no longer; the holders stay."""
        for id in list(self._watched):
            self._unwatch(id)

    def _alive(self, sandbox: Sandbox) -> bool:
        holder = sandbox.record.holder
        same_boot = sandbox.record.boot == self._boot
        return holder is not None and same_boot and start_ticks(holder.pid) == holder.ticks

    async def _start(self, sandbox: Sandbox) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        paths = kernel_paths(sandbox.config.linux.sysctls)
        with ours:
            try:
                self._launcher.launch_holder(bool(paths), paths, theirs)
            finally:
                theirs.close()
            holding = await _receive(ours)
            if not holding.pid:
                raise InvalidRequest(holding.error or "the pod's namespaces cannot be made; see the runtime's log")
            await self._record(sandbox, Holder(holding.pid, holding.ticks, ipc=bool(paths)))
            ours.send(msgspec.json.encode({"op": "go"}))
        self._watch(sandbox)

    async def _record(self, sandbox: Sandbox, holder: Holder) -> None:
        """Write the record before go: whatever happens then, the next runtime knows the holder."""
        async with sandbox.writing:
            fresh = msgspec.structs.replace(sandbox.record, holder=holder)
            if sandbox.ready:
                await asyncio.to_thread(self._state.save, fresh)
            if not sandbox.ready:
                raise WrongState(f'sandbox "{sandbox.id}" is not ready; run a new one')
            sandbox.record = fresh

    def _watch(self, sandbox: Sandbox) -> bool:
        holder = sandbox.record.holder
        if holder is None:
            return False
        try:
            descriptor = os.pidfd_open(holder.pid)
        except OSError:
            return False
        if not self._alive(sandbox):
            os.close(descriptor)
            return False
        self._watched[sandbox.id] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._ended, sandbox)
        return True

    def _unwatch(self, id: str) -> None:
        if (descriptor := self._watched.pop(id, None)) is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def _ended(self, sandbox: Sandbox) -> None:
        self._unwatch(sandbox.id)
        if sandbox.ready:
            _LOG.warning("holder of a pod's namespaces ended sandbox=%s", sandbox.id[:12])
            self.on_lost(sandbox)


async def _receive(connection: socket.socket) -> _Holding:
    """Raises LauncherGone if nothing comes."""
    loop = asyncio.get_running_loop()
    data = b""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(DEADLINE_S):
            data = await loop.sock_recv(connection, _PACKET)
    try:
        return msgspec.json.decode(data, type=_Holding)
    except msgspec.DecodeError:
        raise LauncherGone("the holder of the pod's namespaces did not start; try again") from None
