"""A storm of connections that prove nothing, while ordinary clients read, write and watch; all comes back after it."""

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from protocols.serving.connection import LINGER_S, UNAUTHENTICATED_S
from protocols.serving.listener import YOUNG_S
from protocols.serving.unauthenticated import UnauthenticatedLimits
from tests.support.mistreat import pids
from tests.support.plane import Plane, until
from tests.support.plane_client import connect
from tests.support.shared_fixtures import plane_that_settles
from tests.support.witnesses import Witnesses, lives

STORM = 1500
"""Connections of each kind, opened one after another; those that the server closes are opened again."""
STORM_S, STORM_LONGEST_S = 2.0, 60.0
"""It lasts at least so long, and until more were opened than are kept."""
WITNESSES_OPEN = 64
"""More connections than the witnesses and kubectl hold."""
MEMORY_FACTOR = 1.3
COMES_BACK_S = 60.0
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

plane = plane_that_settles


def test_storm_of_connections_delays_nobody_and_leaves_nothing(plane: Plane) -> None:
    before = lives(plane)
    with Witnesses(plane):
        pass
    pid = pids(plane, ["apiserver-0"])["apiserver-0"]
    size, files = resident(pid), descriptors(pid)
    with Witnesses(plane, per_second=10) as witnesses, storms(plane) as attackers:
        began, most = time.monotonic(), 0
        while (lasted := time.monotonic() - began) < STORM_S or not too_many(attackers):
            assert lasted < STORM_LONGEST_S, [attacker.opened for attacker in attackers]
            acknowledged = len(witnesses.writer.acknowledged)
            until("writes go on", lambda least=acknowledged: len(witnesses.writer.acknowledged) > least)  # type: ignore[misc] # bound at once
            assert plane.kubectl("get", "namespaces", "-o", "name")
            most = max(most, descriptors(pid))
        # A connection is evicted once it is YOUNG_S old, and has LINGER_S to read why.
        bound = UnauthenticatedLimits().per_address * (1 + LINGER_S / YOUNG_S) + WITNESSES_OPEN
        assert most < files + bound, "connections that prove nothing are bounded"
    assert lives(plane) == before
    until("descriptors come back", lambda: descriptors(pid) <= files + 10, 30)
    until("memory comes back", lambda: resident(pid) <= MEMORY_FACTOR * size, COMES_BACK_S)


def test_connections_that_complete_no_request_are_closed_in_time(plane: Plane) -> None:
    began = time.monotonic()
    with contextlib.ExitStack() as held:
        attackers = [opened(plane) for opened in (half_hello, silent, slow)]
        for attacker in attackers:
            held.callback(attacker.close)
        for attacker in attackers:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert attacker.recv(1000) == b""
    assert time.monotonic() - began > UNAUTHENTICATED_S - 2


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def too_many(attackers: "list[Attacker]") -> bool:
    """Ask for half as many again as are kept: some must have been evicted."""
    return sum(attacker.opened for attacker in attackers) > 1.5 * UnauthenticatedLimits().per_address


def half_hello(plane: Plane) -> socket.socket:
    """The beginning of a handshake."""
    whole = connect(plane.root)
    raw = socket.create_connection((whole.host, whole.port), 60)
    raw.sendall(HELLO)
    return raw


def silent(plane: Plane) -> socket.socket:
    """A whole handshake, and nothing else."""
    context = ssl.create_default_context(cafile=str(plane.root / "pki" / "ca.crt"))
    whole = connect(plane.root)
    return context.wrap_socket(socket.create_connection((whole.host, whole.port), 60), server_hostname=whole.host)


def slow(plane: Plane) -> socket.socket:
    """The beginning of a long header."""
    tls = silent(plane)
    tls.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: " + b"a" * 30_000)
    return tls


class Attacker:
    """Keeps up to STORM connections of a kind open."""

    def __init__(self, plane: Plane, kind: Callable[[Plane], socket.socket]) -> None:
        self._plane, self._kind = plane, kind
        self._open: list[socket.socket] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.opened = 0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(90)
        for each in self._open:
            each.close()

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                self._open.append(self._kind(self._plane))
                self.opened += 1
            if len(self._open) > STORM:
                self._open.pop(0).close()


@contextlib.contextmanager
def storms(plane: Plane) -> Iterator[list[Attacker]]:
    attackers = [Attacker(plane, kind) for kind in (half_hello, silent, slow)]
    for attacker in attackers:
        attacker.start()
    try:
        yield attackers
    finally:
        for attacker in attackers:
            attacker.close()
