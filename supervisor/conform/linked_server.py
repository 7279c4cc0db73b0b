"""A gRPC server whose socket appears once it listens.

The socket is bound at another path and then linked into its place: an ended server of gRPC removes the path that it was
bound to, whoever has it by then, and a program never sees a socket that does not listen yet.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import grpc
import grpc.aio

from protocols.wire.methods import LIMITS

COLUMNS, STATE, CONNECTED = 8, 5, b"03"
"""Columns of a row of /proc/net/unix, the one of its state, and the state of a connected socket."""

PREVIOUS = "previous.sock"
"""Name of the last server's socket, which stays."""


class LinkedServer:
    """Starts and stops any number of times; `directory` is on the file system of the socket."""

    def __init__(self, directory: Path, socket: Path) -> None:
        self.socket = socket
        self._hidden, self._previous = directory / "bound.sock", directory / PREVIOUS
        self._server: grpc.aio.Server | None = None

    async def start(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Serve where no other socket is any more."""
        self._server = grpc.aio.server(options=LIMITS)
        self._server.add_generic_rpc_handlers(tuple(handlers))
        self._server.add_insecure_port(f"unix:{self._hidden}")
        await self._server.start()
        os.link(self._hidden, self.socket)

    def hide(self) -> None:
        """Remove the socket, unless it is another's; connections stay until the stop."""
        if self._server is not None:
            self.socket.unlink(missing_ok=True)
            self._hidden.replace(self._previous)  # as long as it is there, the next socket has another inode number

    async def stop(self) -> None:
        """Break all connections of the hidden server."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    def connections(self) -> int:
        """Return how many clients are connected, as the kernel says: each accepted socket has the server's path."""
        path = os.fsencode(self._hidden)
        rows = (line.split(maxsplit=COLUMNS - 1) for line in Path("/proc/net/unix").read_bytes().split(b"\n"))
        return sum(row[STATE] == CONNECTED for row in rows if len(row) == COLUMNS and row[-1] == path)
