"""Clients that write as fast as they are answered, and cost little beside the server they measure: no event loop, each
a socket that never waits."""

import re
import select
import socket
import ssl
import time
from collections.abc import Callable

from tests.support.apiserver_plane import Plane

HEAD = (
    b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
LARGEST = 64 * 1024
PATIENCE_S = 30.0


class Writer:
    """One kept connection, one request at a time."""

    def __init__(self, plane: Plane, request: Callable[[], bytes]) -> None:
        plain = socket.create_connection(("127.0.0.1", plane.port), PATIENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plane.tls().wrap_socket(plain, server_hostname="127.0.0.1")
        self._socket.setblocking(False)
        self._request, self._heard = request, b""
        self.number = self._socket.fileno()

    def write(self) -> None:
        """A request is smaller than what the kernel takes at once."""
        self._socket.send(self._request())

    def answered(self) -> bool:
        """Whether all of the answer is here."""
        try:
            heard = self._heard = self._heard + self._socket.recv(LARGEST)
        except ssl.SSLWantReadError:
            return False
        body = heard.find(b"\r\n\r\n") + 4
        size = LENGTH.search(heard, 0, body) if body > 3 else None
        if size is None or len(heard) < body + int(size[1]):
            return False
        assert heard.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")), heard
        self._heard = b""
        return True

    def close(self) -> None:
        self._socket.close()


def written(plane: Plane, writers: int, seconds: float, body: Callable[[], bytes]) -> int:
    """Writes acknowledged to so many clients in so many seconds."""

    def request() -> bytes:
        data = body()
        return HEAD % len(data) + data

    clients = [Writer(plane, request) for _ in range(writers)]
    try:
        return _busily({client.number: client for client in clients}, seconds)
    finally:
        for client in clients:
            client.close()


def _busily(clients: dict[int, Writer], seconds: float) -> int:
    done, poll = 0, select.epoll()
    for number, client in clients.items():
        poll.register(number, select.EPOLLIN)
        client.write()
    until, under_way = time.monotonic() + seconds, len(clients)
    while under_way:
        ready = poll.poll(PATIENCE_S)
        assert ready, "the server is silent"
        for number, _ in ready:
            if clients[number].answered():
                done += 1
                if time.monotonic() < until:
                    clients[number].write()
                else:
                    under_way -= 1
    poll.close()
    return done
