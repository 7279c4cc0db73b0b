"""One watch's connection, its socket never waiting: connect, handshake, ask, then read."""

import errno
import itertools
import os
import re
import select
import socket
import ssl
from pathlib import Path

import msgspec

EVENT = b'"type":"'
SPLIT = len(EVENT) - 1
"""Bytes of it that may stand at the end of one read."""
REVISION = b'"resourceVersion":"'
STAMP = re.compile(rb'"stamp":"(\d+)"')
LARGEST = 64 * 1024
HOSTS = itertools.cycle([f"127.0.{net}.{host}" for net in range(1, 11) for host in range(1, 101)])
"""Lines call from these in turn, as clients do that live on machines of their own. The kernel spreads connections over
the processes of a port by address and port: a single host would soon take the ports again that the connections of a
killed process had, and one of those that are left would get half of them."""
LATE_PORT = 24
"""IP_BIND_ADDRESS_NO_PORT: the port is chosen when it is known whom to call."""


class Options(msgspec.Struct, frozen=True):
    port: int
    pki: str
    paths: list[str]
    """One watch each, or `times`."""
    times: int = 1
    version: int = 0
    resume: bool = False
    """Come back after a lost connection, from the last revision seen."""
    stamps: bool = False
    together: int = 200
    """So many handshakes are under way at most: clients that lost their server come back without asking one another."""
    token: str = ""
    """In place of a client certificate."""
    plain: bool = False
    """Without TLS."""


class Context:
    """What all lines share."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.tls = None if options.plain else _tls(options)
        self.proof = f"Authorization: Bearer {options.token}\r\n" if options.token else ""


class Line:
    __slots__ = ("_asked", "_context", "_ready", "_socket", "_tail", "number", "open", "path", "version", "wants")

    def __init__(self, context: Context, path: str, version: int) -> None:
        self._context, self.path, self.version = context, path, version
        self.open = False
        self._asked = False
        self._ready = False
        """The connection is made."""
        self._tail = b""
        self.wants = select.EPOLLIN
        self._socket: socket.socket | ssl.SSLSocket = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_IP, LATE_PORT, 1)
        self._socket.bind((next(HOSTS), 0))
        self._socket.connect_ex(("127.0.0.1", context.options.port))
        self.number = self._socket.fileno()

    def proceed(self) -> bytes | None:
        """What was read, at least a byte; None while there is nothing. Raises OSError once the connection is lost."""
        try:
            if not self._asked:
                self._ask()
                return None
            data = self._socket.recv(LARGEST)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return data

    def _ask(self) -> None:
        """As far as it gets. The number stays the same when TLS takes the socket over."""
        if not self._ready:
            self._ready = True
            fault = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if fault:
                raise OSError(fault, os.strerror(fault))
            if self._context.tls is not None:
                self._socket = self._context.tls.wrap_socket(
                    self._socket, server_hostname="localhost", do_handshake_on_connect=False
                )
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.do_handshake()
        query = f"watch=true&resourceVersion={self.version}" if self.version else "watch=true"
        request = f"GET {self.path}?{query} HTTP/1.1\r\nHost: localhost\r\n{self._context.proof}\r\n"
        self._socket.send(request.encode())
        self._asked = True

    def count(self, data: bytes) -> int:
        """Events that begin in `data`, and remembers the last revision."""
        edge = self._tail + data[:SPLIT]
        self._tail = data[-SPLIT:] if len(data) >= SPLIT else edge[-SPLIT:]
        if self._context.options.resume:
            self._remember(data)
        return data.count(EVENT) + edge.count(EVENT)

    def stamps(self, data: bytes) -> list[int]:
        return [int(number) for number in STAMP.findall(data)]

    def close(self) -> None:
        self._socket.close()

    def _remember(self, data: bytes) -> None:
        place = data.rfind(REVISION)
        if place >= 0:
            place += len(REVISION)
            self.version = int(data[place : data.index(b'"', place)])


def _tls(options: Options) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The server's certificate is not looked at: what that costs a client is not what is measured.
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if not options.token:
        pki = Path(options.pki)
        tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return tls
