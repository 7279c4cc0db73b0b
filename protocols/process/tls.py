"""TLS from files that may be replaced at any time; they are checked whenever a connection begins.

A new certificate serves new connections; open ones go on, unless the CAs of clients were replaced: see `is_trusted`.
While the files do not match (a certificate without its new key) or cannot be read, the last ones that matched are used.
No session is ever resumed: a resumed session would skip the client's certificate, and neither its expiry nor its CA
would be checked again.
"""

import _ssl
import asyncio
import ctypes
import functools
import hashlib
import logging
import os
import ssl
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from protocols.errors import NodeplaneError

log = logging.getLogger(__name__)
Made = TypeVar("Made")
State = tuple[tuple[int, int, int], ...]


AGAIN_S = 10.0
"""Seconds between attempts to use files that could not be used, as while too many files are open."""


class Renewed(Generic[Made]):
    """A value made from files, and made again when one of them changes.

    The constructor raises what `make` does; later failures are logged, and the last value stays.
    """

    def __init__(self, files: Iterable[Path | None], make: Callable[[], Made], what: str = "certificates") -> None:
        self._files = tuple(str(path) for path in files if path is not None)
        self._make = make
        self._what = what
        self._seen = _state(self._files)
        self._again_at: float | None = None
        """Monotonic time of the next attempt after one that failed: the files may be good, and reading them was not."""
        self._made = make()

    @property
    def last(self) -> Made:
        """Result of the latest `now()`, without checking the files."""
        return self._made

    def now(self) -> Made:
        """Return the current value. Blocks for a stat of each file, and a small read after a change."""
        seen = _state(self._files)
        if seen != self._seen or (self._again_at is not None and time.monotonic() >= self._again_at):
            self._seen, self._again_at = seen, None
            try:
                self._made = self._make()
            except (OSError, ValueError, NodeplaneError) as error:
                self._again_at = time.monotonic() + AGAIN_S
                log.warning("new %s are not used yet, the last ones stay: %s", self._what, error)
        return self._made


def client_context(ca: Path | bytes | None = None) -> ssl.SSLContext:
    """Return a context that verifies servers by these CAs, a file or PEM; None: by the system's.

    Since 3.13 Python's default demands key identifiers and key usages that certificates of other people lack; programs
    in Go, which Kubernetes' are, do without. Raises OSError, of which SSLError is one, and ValueError.
    """
    if isinstance(ca, bytes):
        context = ssl.create_default_context(cadata=ca.decode("ascii"))
    else:
        context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class ServerContext(msgspec.Struct, frozen=True):
    """The context of an HTTPS server."""

    context: ssl.SSLContext
    trust: bytes
    """Digest of the client CAs."""


def server_context(cert: Path, key: Path, client_ca: Path) -> ServerContext:
    """Request client certificates without requiring them: a client without one gets an HTTP error.

    Raises OSError, of which SSLError is one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF  # as HTTP does; since 3.13 no longer Python's default
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(cert, key)
    authorities = client_ca.read_bytes()
    context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))  # comments may be anything
    context.sslsocket_class = _Connection
    disable_sessions(context)
    disable_own_chain(context)
    return ServerContext(context, hashlib.sha256(authorities).digest())


class _Connection(ssl.SSLSocket):
    """The connection of a client, and by which CAs it was verified."""

    trust: bytes = b""
    """Digest of the client CAs that the handshake used."""
    contexts: Renewed[ServerContext] | None = None


def serving(contexts: Renewed[ServerContext]) -> ssl.SSLContext:
    """Return a context to listen with: each handshake uses the current certificate and client CAs."""
    context = contexts.now().context

    def swap(connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> int | None:
        fresh = contexts.now()
        if connection.session_reused:  # possible only where the session cache could not be turned off
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        connection.context = fresh.context
        if isinstance(connection, _Connection):
            connection.trust, connection.contexts = fresh.trust, contexts
        return None

    context.sni_callback = swap  # called without a name, too
    return context


def is_trusted(transport: asyncio.BaseTransport | None, now: float) -> bool:
    """Return False once the client's certificate expired, or the CAs that verified it were replaced.

    `now` is wall-clock time. True without a client certificate. Cheap enough for each request: reads no file.
    """
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if transport is None or not certificate:
        return True
    if expiry(certificate) <= now:
        return False
    tls = transport.get_extra_info("ssl_object")
    return not isinstance(tls, _Connection) or tls.contexts is None or tls.contexts.last.trust == tls.trust


def expiry(certificate: dict[str, Any] | None) -> float:
    """Return the wall-clock time at which a peer's certificate ends; infinity without one."""
    return _seconds(certificate["notAfter"]) if certificate else float("inf")


@functools.lru_cache(maxsize=1024)
def _seconds(text: str) -> float:
    """A certificate's `notAfter`, a fixed-length text that a CA signed."""
    return float(ssl.cert_time_to_seconds(text))


def _state(files: tuple[str, ...]) -> State:
    return tuple(map(_one, files))


def _one(path: str) -> tuple[int, int, int]:
    try:
        st = os.stat(path)
    except OSError:
        return 0, 0, 0
    return st.st_mtime_ns, st.st_size, st.st_ino


SET_MODE, SET_CACHE_MODE, GET_CACHE_MODE = 33, 44, 45
"""SSL_CTRL_MODE, SSL_CTRL_SET_SESS_CACHE_MODE and SSL_CTRL_GET_SESS_CACHE_MODE of openssl/ssl.h."""
CACHE_OFF, CACHE_OF_SERVERS = 0, 2
"""SSL_SESS_CACHE_OFF, and SSL_SESS_CACHE_SERVER, which every new context has."""
NO_AUTO_CHAIN = 8
"""SSL_MODE_NO_AUTO_CHAIN."""


def disable_sessions(context: ssl.SSLContext) -> bool:
    """Return True when the session cache is off as well.

    It stays on where OpenSSL is linked in without its symbols, and in builds of Python that are not known. Resumed
    handshakes are refused there.
    """
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    control = _control(context)
    if control is None or control(GET_CACHE_MODE, 0) != CACHE_OF_SERVERS:
        return False
    control(SET_CACHE_MODE, CACHE_OFF)
    return True


def disable_own_chain(context: ssl.SSLContext) -> bool:
    """Return True when the server sends its certificate file as it is.

    By itself OpenSSL looks for the chain of the server's own certificate among the CAs of the clients: it would check
    that signature and send the CA along, anew for each connection, and the client would take it apart for nothing. Both
    together cost as much as a quarter of a handshake. It stays so where `disable_sessions` cannot work either.
    """
    control = _control(context)
    return control is not None and bool(control(SET_MODE, NO_AUTO_CHAIN) & NO_AUTO_CHAIN)


def _control(context: ssl.SSLContext) -> Callable[[int, int], int] | None:
    """Return SSL_CTX_ctrl of this context; None where it cannot be called."""
    if not _is_layout_known():
        return None
    try:
        control = ctypes.CDLL(getattr(_ssl, "__file__", None)).SSL_CTX_ctrl
    except (OSError, AttributeError):
        return None
    control.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p)
    control.restype = ctypes.c_long
    # CPython keeps the SSL_CTX pointer right behind the object's header.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    return lambda command, value: int(control(pointer, command, value, None))


def _is_layout_known() -> bool:
    """Return True for the builds of CPython whose SSLContext was looked at; of another, its memory is not read."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 14) and not free_threaded
