"""Raw bytes on a TLS connection to the API server, and what comes back before it is closed or time is up."""

import contextlib
import socket
import ssl
from collections.abc import Iterator

from tests.support.apiserver_plane import Plane

CONFIGMAPS = b"/api/v1/namespaces/default/configmaps"


@contextlib.contextmanager
def connected(plane: Plane, user: str = "admin") -> Iterator[ssl.SSLSocket]:
    raw = socket.create_connection(("127.0.0.1", plane.port), timeout=30)
    with plane.tls(user).wrap_socket(raw, server_hostname="127.0.0.1") as tls:
        yield tls


def said(plane: Plane, words: bytes, seconds: float = 30.0, user: str = "admin") -> bytes:
    """The whole answer, to its last byte; what came until then if the server does not close."""
    with connected(plane, user) as tls:
        tls.settimeout(seconds)
        found = b""
        with contextlib.suppress(OSError):
            tls.sendall(words)
            while part := tls.recv(65536):
                found += part
        return found


def request(method: bytes, path: bytes, *headers: bytes, body: bytes | None = None) -> bytes:
    lines = [method + b" " + path + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def post(body: bytes, *headers: bytes) -> bytes:
    return request(b"POST", CONFIGMAPS, b"Content-Type: application/json", *headers, body=body)
