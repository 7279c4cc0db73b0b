"""Find sockets in plugins_registry/, as kubelet's plugin watcher does.

A socket that fails is asked again after RETRY_S; one that is made anew, or found by a new kubelet, is asked again, too.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from protocols.process.sockets import answers, is_socket
from protocols.process.tasks import Tasks, restarted
from protocols.wire.plugins import GET_INFO, NOTIFY
from supervisor.conform.caller import ServicePeer
from supervisor.conform.waiting import ChangeSignal

SCAN_S, RETRY_S, DIAL_S = 0.05, 0.5, 10.0
Identity = tuple[int, int]


class Registry:
    """`ask` is called with a socket, and again until it returns True; `gone` with one that is removed or replaced."""

    def __init__(
        self,
        sockets: Callable[[], Iterator[Path]],
        changes: ChangeSignal,
        ask: Callable[[Path], Awaitable[bool]],
        gone: Callable[[Path], Awaitable[None]],
    ) -> None:
        self._sockets, self._changes, self._ask, self._gone = sockets, changes, ask, gone
        self._known: dict[Path, Identity] = {}
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks = Tasks()
        self._tasks.start(restarted(self._scan, "finds sockets"), "finds sockets")

    async def stop(self) -> None:
        await self._tasks.close()
        self._known.clear()

    async def _scan(self) -> None:
        while True:
            identities = {path: identity_of(path) for path in self._sockets()}
            for path in self._known.keys() - identities.keys():
                del self._known[path]
                await self._gone(path)
            for path, identity in identities.items():
                if self._known.get(path) != identity:
                    self._known[path] = identity
                    await self._gone(path)
                    self._tasks.start(self.register(path, identity), f"registers {path.name}")
            await asyncio.sleep(SCAN_S)

    async def register(self, path: Path, identity: Identity) -> None:
        """Try until it is registered, or the socket is another one."""
        self._known[path] = identity

        def replaced() -> bool:
            return self._known.get(path) != identity

        while True:
            await self._changes.until(lambda: is_served(path), DIAL_S, over=replaced)  # bound sockets may listen later
            if replaced() or await self._ask(path):
                return
            await asyncio.sleep(RETRY_S)


def sockets_below(folder: Path) -> Iterator[Path]:
    """Yield the sockets, in directories below as well, without those with a dot."""
    for name, folders, files in os.walk(folder):
        folders[:] = [below for below in folders if not below.startswith(".")]
        yield from filter(is_socket, (Path(name) / file for file in files if not file.startswith(".")))


def identity_of(socket: Path) -> Identity:
    """Return what differs between a socket and one that was made in its place."""
    status = socket.lstat()
    return status.st_ino, status.st_ctime_ns


def is_served(socket: Path) -> bool:
    """Return True if somebody accepts connections at the socket."""
    try:
        return answers(socket)
    except (OSError, ValueError):  # its path is too long, or has a NUL
        return False


class Registrar(ServicePeer):
    """Connection to the Registration service at such a socket."""

    ALWAYS_ASKED = (GET_INFO.name, NOTIFY.name)
