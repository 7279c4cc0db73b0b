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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from protocols.errors import NodeplaneError

log = logging.getLogger(__name__)
Made = TypeVar("Made")
State = tuple[tuple[int, int, int], ...]


class Renewed(Generic[Made]):
    """A value made from files, and made again when one of them changes.

    The constructor raises what `make` does; later failures are logged, and the last value stays.
    """

    def __init__(self, files: Iterable[Path | None], make: Callable[[], Made], what: str = "certificates") -> None:
        self._files = tuple(str(path) for path in files if path is not None)
        self._make = make
        self._what = what
        self._seen = _state(self._files)
        self._made = make()

    @property
    def last(self) -> Made:
        """Result of the latest `now()`, without checking the files."""
        return self._made

    def now(self) -> Made:
        """Return the current value. Blocks for a stat of each file, and a small read after a change."""
        seen = _state(self._files)
        if seen != self._seen:
            self._seen = seen
            try:
                self._made = self._make()
            except (OSError, ValueError, NodeplaneError) as error:
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


class ServerContexts(msgspec.Struct, frozen=True):
    """Contexts of a listening socket; each handshake uses both in turn.

    With one context alone OpenSSL finds the CA of the clients when it looks for the chain of the server's own
    certificate: it would check that signature and send the CA along, anew for each connection, and the client would
    take it apart for nothing. Both together cost as much as a quarter of a handshake.
    """

    answering: ssl.SSLContext
    """Presents the server's certificate. It knows no CA, so it would reject any client certificate."""
    verifying: ssl.SSLContext
    """Verifies the client's certificate."""
    trust: bytes
    """Digest of the client CAs."""


def server_contexts(cert: Path, key: Path, client_ca: Path) -> ServerContexts:
    """Return the contexts of an HTTPS server. Raises OSError, of which SSLError is one."""
    answering, verifying = _server_context(cert, key), _server_context(cert, key)
    authorities = client_ca.read_bytes()
    verifying.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))  # comments may be anything
    verifying.sslobject_class = _Connection
    return ServerContexts(answering, verifying, hashlib.sha256(authorities).digest())


def _server_context(cert: Path, key: Path) -> ssl.SSLContext:
    """Request client certificates without requiring them: a client without one gets an HTTP error."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(cert, key)
    disable_sessions(context)
    return context


class _Connection(ssl.SSLObject):
    """A server always waits for its client between its own certificate and the client's: that is the turn."""

    verifying: ssl.SSLContext | None = None
    """Whose turn is next."""
    trust: bytes = b""
    """Digest of the client CAs that the handshake used."""
    contexts: Renewed[ServerContexts] | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            if self.verifying is not None:
                self.context, self.verifying = self.verifying, None
            raise


def serving(contexts: Renewed[ServerContexts]) -> ssl.SSLContext:
    """Return a context to listen with: each handshake uses the current certificate and client CAs."""
    context = contexts.now().verifying

    def swap(connection: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> int | None:
        fresh = contexts.now()
        if connection.session_reused:  # possible only where the session cache could not be turned off
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        if isinstance(connection, _Connection):
            connection.context, connection.verifying = fresh.answering, fresh.verifying
            connection.trust, connection.contexts = fresh.trust, contexts
        else:  # a socket that is waited for has no turns
            connection.context = fresh.verifying
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
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


SET_CACHE_MODE, GET_CACHE_MODE = 44, 45
"""SSL_CTRL_SET_SESS_CACHE_MODE and SSL_CTRL_GET_SESS_CACHE_MODE of openssl/ssl.h."""
CACHE_OFF, CACHE_OF_SERVERS = 0, 2
"""SSL_SESS_CACHE_OFF, and SSL_SESS_CACHE_SERVER, which every new context has."""


def disable_sessions(context: ssl.SSLContext) -> bool:
    """Return True when the session cache is off as well.

    It stays on where OpenSSL is linked in without its symbols, and in builds of Python that are not known. Resumed
    handshakes are refused there.
    """
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    if not _is_layout_known():
        return False
    try:
        control = ctypes.CDLL(getattr(_ssl, "__file__", None)).SSL_CTX_ctrl
    except (OSError, AttributeError):
        return False
    control.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p)
    control.restype = ctypes.c_long
    # CPython keeps the SSL_CTX pointer right behind the object's header.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    if control(pointer, GET_CACHE_MODE, 0, None) != CACHE_OF_SERVERS:
        return False
    control(pointer, SET_CACHE_MODE, CACHE_OFF, None)
    return True


def _is_layout_known() -> bool:
    """Return True for the builds of CPython whose SSLContext was looked at; of another, its memory is not read."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 14) and not free_threaded
