"""The socket of a fleet that runs: its status, and faults on demand, for whoever may open it.

A connection is one line of JSON from the client and one back: `{"status": true}`, or `{"fault": {...}}` with the fields
of a fault. Lines, connections and their time are bounded; no client keeps the fleet or another client waiting.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from actors.fleet.faults.script import Fault
from protocols.errors import NodeplaneError, SettingsInvalid
from protocols.kube.names import label_faults
from protocols.messages.fleet import FleetStatus, Hit
from protocols.process.layout import SOCKET_PATH_LIMIT, Layout
from protocols.process.scripts import ScriptInvalid, parse_script
from protocols.process.sockets import SocketInUse, answers, prepare_directory, prepare_socket, private_sockets

MAX_LINE = 64 << 10
MAX_CLIENTS = 16
DEADLINE_S = 10.0
"""Time in which a client sends its line and reads the answer."""
PRIVATE = 0o700


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The line of a client."""

    status: bool = False
    fault: Fault | None = None

    def __post_init__(self) -> None:
        if self.status == (self.fault is not None):
            raise ValueError("an order has a status or a fault")


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The line of the fleet."""

    error: str = ""
    status: FleetStatus | None = None
    hit: Hit | None = None


class FleetAway(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when no fleet answers on the socket of its name."""


def socket_path(layout: Layout, fleet: str) -> Path:
    """Return the socket of a fleet of this name. Raises SettingsInvalid."""
    if faults := label_faults(fleet):  # it is part of names of namespaces and slices
        raise SettingsInvalid(f"no fleet can be called {fleet!r:.64}; in --name, {faults[0]}")
    path = layout.run / f"fleet-{fleet}.sock"
    if len(str(path).encode()) > SOCKET_PATH_LIMIT:
        raise SettingsInvalid(f"no socket can be called {path}; give the fleet a shorter --name")
    return path


class Control:
    """Serves `perform` on a socket. `perform` may raise errors of nodeplane, which are the client's answer."""

    def __init__(self, path: Path, perform: Callable[[Order], Answer]) -> None:
        self._path = path
        self._perform = perform
        self._server: asyncio.Server | None = None
        self.clients: set[Client] = set()

    async def start(self) -> None:
        """Listen. Raises SocketInUse, SettingsInvalid."""
        if answers(self._path):
            raise SocketInUse(f"a fleet with the socket {self._path} runs already; stop it, or choose another --name")
        prepare_directory(self._path.parent, PRIVATE)
        prepare_socket(self._path)
        with private_sockets():
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(lambda: Client(self), str(self._path), backlog=MAX_CLIENTS)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for client in list(self.clients):
            client.abort()

    def answer(self, line: bytes) -> Answer:
        try:
            return self._perform(parse_script("order", line, Order))
        except NodeplaneError as error:
            return Answer(error=str(error))


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(DEADLINE_S, self.abort)
        self._control.clients.add(self)
        if len(self._control.clients) > MAX_CLIENTS:
            self.abort()

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if len(line) > MAX_LINE:
            self._send(Answer(error=f"the line is longer than {MAX_LINE} bytes"))
        elif newline:
            self._send(self._control.answer(bytes(line)))

    def connection_lost(self, error: Exception | None) -> None:
        self._control.clients.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _send(self, answer: Answer) -> None:
        assert self._transport is not None
        self._transport.write(msgspec.json.encode(answer) + b"\n")
        self._transport.close()


async def ask(path: Path, order: dict[str, Any]) -> Answer:
    """Send an order to a fleet. Raises FleetAway, and ScriptInvalid for one that it rejects."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            line = await _exchange(path, msgspec.json.encode(order) + b"\n")
        answer = msgspec.json.decode(line, type=Answer)
    except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
        why = getattr(error, "strerror", "") or str(error) or "time is over"
        raise FleetAway(f"no fleet answers on {path} ({why}); is it running, with this --name and --root?") from None
    if answer.error:
        raise ScriptInvalid(answer.error)
    return answer


async def _exchange(path: Path, line: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 20)
    try:
        writer.write(line)
        return await reader.readline()
    finally:
        writer.close()
