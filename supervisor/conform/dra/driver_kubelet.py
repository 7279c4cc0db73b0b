"""The played kubelet of DRA drivers: of those that it finds in its directory, and of one that runs already."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from protocols.process.sockets import is_socket, prepare_directory
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.plugins import DRA_PLUGIN, GET_INFO, NOTIFY, PREPARE
from supervisor.conform.caller import ServicePeer
from supervisor.conform.dra.driver_peer import DriverPeer
from supervisor.conform.dra.objects import DraObjects
from supervisor.conform.exchange import Exchange, ExchangeRecorder
from supervisor.conform.played import MAX_ATTEMPTS, PlayedKubelet, Registration
from supervisor.conform.registry import Registrar, Registry, sockets_below
from supervisor.conform.verdict import CallFailed

NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


BY_CALLS = ("registration", "kubelet-restarts")
"""Behaviours of a driver's life that a second kubelet can judge: it asks the driver, not the driver it."""


@dataclass
class DriverAttempt(Registration[DriverPeer]):
    """One try to register what serves a socket."""

    info: registration.PluginInfo = field(default_factory=registration.PluginInfo)
    endpoint: Path = Path()
    """The service's socket as this machine has it."""
    info_fault: str = ""
    notify_fault: str = ""
    calls: list[Exchange | None] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def exchanges(self) -> list[Exchange | None]:
        return self.calls


class DriverKubelet(PlayedKubelet[DriverPeer, DriverAttempt]):
    """Finds sockets below `DIRECTORY/plugins_registry`; after MAX_ATTEMPTS none is asked any more."""

    def __init__(
        self,
        directory: Path,
        recorder: ExchangeRecorder,
        timeout: float,
        objects: DraObjects,
        cdi: Sequence[Path],
        here: Callable[[str], Path] = Path,
    ) -> None:
        """`here` returns where a path that a driver names is on this machine."""
        super().__init__(recorder, timeout)
        self.objects, self.cdi = objects, cdi
        self._here = here
        self.registry = directory / "plugins_registry"
        self._folders = (self.registry, directory / "plugins")
        self._sockets = Registry(lambda: self.sockets(), self.changes, self._register, self.disconnect)

    async def start(self) -> None:
        self.prepare_directories()
        self._sockets.start()

    async def stop(self) -> None:
        """End as kubelet does: connections to drivers are closed, and their sockets stay."""
        await self._sockets.stop()
        await self.forget()

    def prepare_directories(self) -> None:
        for path in self._folders:
            prepare_directory(path)

    def remove_sockets(self) -> None:
        """Remove what the end of all programs leaves."""
        for path in (path for folder in self._folders for path in folder.rglob("*") if is_socket(path)):
            with suppress(FileNotFoundError):
                path.unlink()

    def sockets(self) -> Iterator[Path]:
        """Yield those that it finds."""
        return sockets_below(self.registry)

    async def _register(self, path: Path) -> bool:
        if len(self.attempts) >= MAX_ATTEMPTS:
            return True
        attempt = await self._attempt(path)
        self.attempts.append(attempt)
        self.changes.notify()
        return attempt.peer is not None

    async def _attempt(self, path: Path) -> DriverAttempt:
        attempt = DriverAttempt(socket=path)
        registrar = Registrar(path.name, path, self.recorder, self.timeout)
        try:
            await self._ask(attempt, registrar)
        finally:
            await registrar.close()
        return attempt

    async def _ask(self, attempt: DriverAttempt, registrar: ServicePeer) -> None:
        try:
            attempt.info = await registrar.call(GET_INFO, registration.InfoRequest())
        except CallFailed as error:
            attempt.fault = attempt.info_fault = str(error)
            return
        finally:
            attempt.calls.append(registrar.last)
        endpoint = attempt.info.endpoint
        attempt.endpoint = self._here(endpoint) if endpoint else attempt.socket
        attempt.fault = self._fault(attempt)
        status = registration.RegistrationStatus(plugin_registered=not attempt.fault, error=attempt.fault)
        try:
            await registrar.call(NOTIFY, status)
        except CallFailed as error:
            attempt.notify_fault = str(error)
            attempt.fault = attempt.fault or attempt.notify_fault
        attempt.calls.append(registrar.last)
        if not attempt.fault:
            attempt.peer = self._connect(attempt)

    def _fault(self, attempt: DriverAttempt) -> str:
        """Check in kubelet's order, which does not look for the service's socket: it may be bound later."""
        if fault := self.rejection():
            return fault
        info = attempt.info
        others = [other.peer for other in self.attempts if other.peer and other.name == info.name]
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


def type_fault(info: registration.PluginInfo) -> str:
    """Return why kubelet does not take the socket for a DRA driver's; empty if it does."""
    return "" if info.type == DRA_PLUGIN else f"type is {info.type!r}, not {DRA_PLUGIN}"


def name_fault(info: registration.PluginInfo) -> str:
    """Return why the driver's name is invalid; empty if it is not."""
    return "" if NAME.fullmatch(info.name) else f"name {info.name!r} is not a DNS name of at most 63 characters"


def versions_fault(info: registration.PluginInfo) -> str:
    """Return why kubelet has no version in common with the driver; empty if it has."""
    if not info.supported_versions:
        return "supported_versions is empty"
    if set(info.supported_versions) & PREPARE.keys():
        return ""
    return f"supported_versions has none of {', '.join(PREPARE)}, but {', '.join(info.supported_versions)}"


def endpoint_fault(attempt: DriverAttempt) -> str:
    """Return why the endpoint is invalid; empty if it is not."""
    return "" if attempt.endpoint.is_absolute() else f"endpoint {attempt.info.endpoint!r} is not an absolute path"


class ServedDriverKubelet(DriverKubelet):
    """Finds one socket only, and changes nothing in the directory of a kubelet."""

    def __init__(
        self, socket: Path, recorder: ExchangeRecorder, timeout: float, objects: DraObjects, cdi: Sequence[Path]
    ) -> None:
        super().__init__(socket.parent, recorder, timeout, objects, cdi)
        self._socket = socket

    def prepare_directories(self) -> None:
        """Do nothing: the directories are another kubelet's."""

    def remove_sockets(self) -> None:
        """Do nothing: the sockets are another kubelet's."""

    def sockets(self) -> Iterator[Path]:
        if is_socket(self._socket):
            yield self._socket
