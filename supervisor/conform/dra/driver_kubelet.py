"""The played kubelet of DRA drivers: it finds sockets in plugins_registry/, as kubelet's plugin watcher does.

A socket that fails is asked again after RETRY_S; one that is made anew, or found by a new kubelet, is asked again, too.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from protocols.process.sockets import answers, is_socket, prepare_directory
from protocols.process.tasks import Tasks, restarted
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.plugins import DRA_PLUGIN, GET_INFO, NOTIFY, PREPARE
from supervisor.conform.caller import Peer
from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.objects import Objects
from supervisor.conform.exchange import Exchange, Recorder
from supervisor.conform.played import MAX_ATTEMPTS, PlayedKubelet
from supervisor.conform.verdict import CallFailed

SCAN_S, RETRY_S, DIAL_S = 0.05, 0.5, 10.0
NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass
class DriverAttempt:
    """One try to register what serves a socket."""

    socket: Path
    info: registration.PluginInfo = field(default_factory=registration.PluginInfo)
    endpoint: Path = Path()
    """The service's socket as this machine has it."""
    at: float = field(default_factory=time.monotonic)
    fault: str = ""
    """Why it was rejected."""
    info_fault: str = ""
    notify_fault: str = ""
    peer: DriverPeer | None = None
    exchanges: list[Exchange | None] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.info.name


class DriverKubelet(PlayedKubelet[DriverPeer, DriverAttempt]):
    """Finds sockets below `DIRECTORY/plugins_registry`; after MAX_ATTEMPTS none is asked any more."""

    def __init__(
        self,
        directory: Path,
        recorder: Recorder,
        timeout: float,
        objects: Objects,
        cdi: Sequence[Path],
        here: Callable[[str], Path] = Path,
    ) -> None:
        """`here` returns where a path that a driver names is on this machine."""
        super().__init__(recorder, timeout)
        self.directory, self.objects, self.cdi = directory, objects, cdi
        self._here = here
        self.registry = directory / "plugins_registry"
        self._folders = (self.registry, directory / "plugins")
        self._known: dict[Path, tuple[int, int]] = {}
        self._tasks = Tasks()

    async def start(self) -> None:
        self.prepare_directories()
        self._tasks = Tasks()
        self._tasks.start(restarted(self._scan, "finds sockets"), "finds sockets")

    async def stop(self) -> None:
        """End as kubelet does: connections to drivers are closed, and their sockets stay."""
        await self._tasks.close()
        await self.forget()
        self._known.clear()

    def prepare_directories(self) -> None:
        for path in self._folders:
            prepare_directory(path)

    def remove_sockets(self) -> None:
        """Remove what the end of all programs leaves."""
        for path in (path for folder in self._folders for path in folder.rglob("*") if is_socket(path)):
            with suppress(FileNotFoundError):
                path.unlink()

    async def _scan(self) -> None:
        while True:
            found = dict(self.identities())
            for path in self._known.keys() - found.keys():
                del self._known[path]
                await self._deregister(path)
            for path, identity in found.items():
                if self._known.get(path) != identity:
                    self._known[path] = identity
                    await self._deregister(path)
                    self._tasks.start(self._register(path, identity), f"registers {path.name}")
            await asyncio.sleep(SCAN_S)

    def identities(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        """Yield the sockets, in directories below as well, without those with a dot."""
        for folder, names, files in os.walk(self.registry):
            names[:] = [name for name in names if not name.startswith(".")]
            for path in (Path(folder) / name for name in files if not name.startswith(".")):
                if is_socket(path):
                    yield path, identity_of(path)

    async def _deregister(self, path: Path) -> None:
        for attempt in self.attempts:
            if attempt.socket == path and attempt.peer:
                await attempt.peer.close()
                attempt.peer = None
        self.changes.notify()

    async def _register(self, path: Path, identity: tuple[int, int]) -> None:
        """Try until it is registered, or the socket is another one."""

        def replaced() -> bool:
            return self._known.get(path) != identity

        while len(self.attempts) < MAX_ATTEMPTS:
            await self.changes.until(lambda: is_served(path), DIAL_S, over=replaced)  # bound sockets may listen later
            if replaced():
                return
            attempt = await self._attempt(path)
            self.attempts.append(attempt)
            self.changes.notify()
            if attempt.peer:
                return
            await asyncio.sleep(RETRY_S)

    async def _attempt(self, path: Path) -> DriverAttempt:
        attempt = DriverAttempt(path)
        registrar = Registrar(path.name, path, self.recorder, self.timeout)
        try:
            await self._ask(attempt, registrar)
        finally:
            await registrar.close()
        return attempt

    async def _ask(self, attempt: DriverAttempt, registrar: Peer) -> None:
        try:
            attempt.info = await registrar.call(GET_INFO, registration.InfoRequest())
        except CallFailed as error:
            attempt.fault = attempt.info_fault = str(error)
            return
        finally:
            attempt.exchanges.append(registrar.last)
        endpoint = attempt.info.endpoint
        attempt.endpoint = self._here(endpoint) if endpoint else attempt.socket
        attempt.fault = self._fault(attempt)
        status = registration.RegistrationStatus(plugin_registered=not attempt.fault, error=attempt.fault)
        try:
            await registrar.call(NOTIFY, status)
        except CallFailed as error:
            attempt.notify_fault = str(error)
            attempt.fault = attempt.fault or attempt.notify_fault
        attempt.exchanges.append(registrar.last)
        if not attempt.fault:
            attempt.peer = self._connect(attempt)

    def _fault(self, attempt: DriverAttempt) -> str:
        """Check in kubelet's order, which does not look for the service's socket: it may be bound later."""
        if fault := self.rejection():
            return fault
        info = attempt.info
        others = [each.peer for each in self.attempts if each.peer and each.name == info.name]
        faults = (type_fault(info), name_fault(info), versions_fault(info))
        if fault := next(filter(None, faults), ""):
            return fault
        same = any(peer.socket == attempt.endpoint for peer in others)
        return f"endpoint {info.endpoint} already registered for DRA driver plugin {info.name}" if same else ""

    def _connect(self, attempt: DriverAttempt) -> DriverPeer:
        info = attempt.info
        return DriverPeer(
            info.name, attempt.endpoint, self.recorder, self.timeout, self.objects, self.cdi, info.supported_versions
        )


def identity_of(socket: Path) -> tuple[int, int]:
    """Return what differs between a socket and one that was made in its place."""
    status = socket.lstat()
    return status.st_ino, status.st_ctime_ns


def is_served(socket: Path) -> bool:
    try:
        return answers(socket)
    except (OSError, ValueError):  # its path is too long, or has a NUL
        return False


class Registrar(Peer):
    ALWAYS_ASKED = (GET_INFO.name, NOTIFY.name)


def type_fault(info: registration.PluginInfo) -> str:
    return "" if info.type == DRA_PLUGIN else f"type is {info.type!r}, not {DRA_PLUGIN}"


def name_fault(info: registration.PluginInfo) -> str:
    return "" if NAME.fullmatch(info.name) else f"name {info.name!r} is not a DNS name of at most 63 characters"


def versions_fault(info: registration.PluginInfo) -> str:
    if not info.supported_versions:
        return "supported_versions is empty"
    if set(info.supported_versions) & PREPARE.keys():
        return ""
    return f"supported_versions has none of {', '.join(PREPARE)}, but {', '.join(info.supported_versions)}"


def endpoint_fault(attempt: DriverAttempt) -> str:
    return "" if attempt.endpoint.is_absolute() else f"endpoint {attempt.info.endpoint!r} is not an absolute path"
