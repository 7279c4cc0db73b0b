"""An HTTP session for receivers that answer slowly, without end or elsewhere.

The timeout of requests is one of each read: an answer that comes byte by byte never ends, and is read whole. Here the
sockets of a request are shut down at its deadline, at most ANSWER_BYTES are read, and redirects are answers: they would
send the spans, and the headers with the receiver's key, to another place.
"""

import io
import socket
import threading
from contextlib import suppress
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

ANSWER_BYTES = 64 * 1024
"""Bytes of an answer: the protocol's own is a count and a message."""


class BoundedSession(requests.Session):
    """Used by one thread at a time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._sockets: list[socket.socket] = []
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(self._sockets))

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Raises requests.ConnectionError, after the deadline as well."""
        self.close()  # connections that another deadline did not see
        timer = threading.Timer(self._seconds, self._shut_down)
        timer.daemon = True
        timer.start()
        try:
            answer = super().send(request, **{**kwargs, "stream": True, "allow_redirects": False})
            with answer:
                body = answer.raw.read(ANSWER_BYTES, decode_content=False)
            answer.raw = io.BytesIO(body)
            if answer.is_redirect:
                answer.status_code = 400  # the SDK takes all below 400 for a success
            return answer
        except (OSError, ValueError, AttributeError) as error:  # what a socket that is gone causes, anywhere
            raise requests.ConnectionError(str(error)) from None
        finally:
            timer.cancel()
            self._forget()

    def _shut_down(self) -> None:
        for sock in list(self._sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _forget(self) -> None:
        while self._sockets:
            self._sockets.pop().close()


class _Adapter(HTTPAdapter):
    """Puts a duplicate of each socket into `sockets`: TLS takes over the original."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        sockets = self._sockets

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return _noted(super()._new_conn(), sockets)

        class Secure(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return _noted(super()._new_conn(), sockets)

        plain = type("PlainPool", (HTTPConnectionPool,), {"ConnectionCls": Plain})
        secure = type("SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": Secure})
        self.poolmanager.pool_classes_by_scheme = {"http": plain, "https": secure}


def _noted(made: socket.socket, sockets: list[socket.socket]) -> socket.socket:
    sockets.append(made.dup())
    return made
