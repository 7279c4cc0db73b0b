"""Unix sockets of gRPC servers: real files, so that paths behave as they do, and who listens behind each.

A socket file is found by its identity, not by its path: it may be renamed, removed, or bound anew by another process.
A second name for each file keeps its inode number from being used again while the run lasts.
"""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from protocols.process.tasks import one_line

if TYPE_CHECKING:
    from tests.simulation.calls.server import SimServer
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World

WINDOW = 65_536
"""Bytes of one stream that its reader has not read, before the writer waits."""


class Sockets:
    """All sockets of the world, and what is wrong with the calls over them."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.chance = world.random("calls")
        self.window = int(world.draw("call_window", 1024, WINDOW))
        self.malformed: dict[str, int] = {}
        """Replies that are garbage, by the server's process: so many of the next ones."""
        self._retained = world.root / "inodes"
        self._retained.mkdir(parents=True, exist_ok=True)
        self._bound: dict[int, SimServer] = {}
        """Servers by inode number; all files are on one file system."""
        self._stalled: dict[tuple[str, str], float] = {}
        self._made = 0
        self.on_spoilt: Callable[[str], object] = lambda server: None
        """Called with the server's process when a connection to it is cut, or a reply of it is garbage."""
        self.failures: list[str] = []
        """Exceptions that handlers let through: bugs, as gRPC logs them."""

    def failed(self, process: "Process", path: str, error: BaseException) -> None:
        self.failures.append(f"{process.name}: {path}: {one_line(error)}")
        self.world.happened(process.name, f"handler of {path} failed: {one_line(error)}")

    def bind(self, path: Path, server: "SimServer") -> None:
        """Create the socket file, as gRPC does: an old socket is removed. Raises RuntimeError, gRPC's own."""
        unlink(path)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(str(path))
        except OSError as error:
            raise RuntimeError(f"Failed to bind to address unix:{path}: {error.strerror}") from None
        finally:
            made.close()
        self._made += 1
        os.link(path, self._retained / str(self._made))
        now = int(self.world.now * 1e9)
        os.utime(path, ns=(now, now))
        self._bound[path.stat().st_ino] = server

    def find(self, path: Path | str) -> "SimServer | None":
        """Return the server that listens at a path; None if there is no file, or nobody behind it."""
        try:
            found = os.lstat(path)
        except OSError:
            return None
        server = self._bound.get(found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
        return server if server is not None and server.listening else None

    def stall(self, sender: str, receiver: str, until: float) -> None:
        """Hold back what one process sends another until a time of the world: half of their connections is dead."""
        self._stalled[sender, receiver] = until

    def open_at(self, sender: str, receiver: str) -> float:
        return self._stalled.get((sender, receiver), 0.0) if self._stalled else 0.0

    def spoil(self, server: str, reply: bytes) -> bytes:
        """Return the reply, or garbage while the server's process is to send some."""
        left = self.malformed.get(server, 0)
        if not left:
            return reply
        self.malformed[server] = left - 1
        self.on_spoilt(server)
        return b"\xff\xff\xff\xff\xff\xff"

    def answers(self, path: Path) -> bool:
        """Stand for protocols.process.sockets.answers: a paused process answers, its kernel does."""
        return self.find(path) is not None


def unlink(path: Path) -> None:
    """Remove a socket file, whoever bound it, and nothing else: what gRPC does before bind and after close."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            path.unlink()
    except OSError:
        return
