"""TLS from files that may be replaced at any time: they are looked at whenever a connection begins, no later.

A new certificate serves new connections; open ones go on. While the files do not fit together (a certificate is there,
its key not yet), or cannot be read, the last ones that did are used.
"""

import logging
import os
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from protocols.errors import NodeplaneError

log = logging.getLogger(__name__)
Made = TypeVar("Made")
State = tuple[tuple[int, int, int], ...]


class Renewed(Generic[Made]):
    """What is made of some files, made again when one of them is another. Raises what `make` does, at once only."""

    def __init__(self, files: Iterable[Path | None], make: Callable[[], Made], what: str = "certificates") -> None:
        self._files = tuple(str(path) for path in files if path is not None)
        self._make = make
        self._what = what
        self._seen = _state(self._files)
        self._made = make()

    def now(self) -> Made:
        """Blocks for a stat of each file, and a small read after a change."""
        seen = _state(self._files)
        if seen != self._seen:
            self._seen = seen
            try:
                self._made = self._make()
            except (OSError, ValueError, NodeplaneError) as error:
                log.warning("new %s are not used yet, the last ones stay: %s", self._what, error)
        return self._made


class ServerContexts(msgspec.Struct, frozen=True):
    """A listening side's, which takes turns in each handshake.

    With one context alone OpenSSL finds the CA of the clients when it looks for the chain of the server's own
    certificate: it would check that signature and send the CA along, anew for each connection, and the client would
    take it apart for nothing. Both together cost as much as a quarter of a handshake.
    """

    answering: ssl.SSLContext
    """While the server says who it is. It knows no CA, so a client that met it later would be refused."""
    verifying: ssl.SSLContext
    """While the client does."""


def server_contexts(make: Callable[[], ssl.SSLContext], client_ca: Path) -> ServerContexts:
    """`make` makes one without CA. Raises OSError, of which SSLError is one."""
    answering, verifying = make(), make()
    verifying.load_verify_locations(client_ca)
    verifying.sslobject_class = _Connection
    return ServerContexts(answering, verifying)


class _Connection(ssl.SSLObject):
    """A server always waits for its client between its own certificate and the client's: that is the turn."""

    verifying: ssl.SSLContext | None = None
    """Whose turn is next."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            if self.verifying is not None:
                self.context, self.verifying = self.verifying, None
            raise


def serving(contexts: Renewed[ServerContexts]) -> ssl.SSLContext:
    """To listen with: each handshake goes on with the contexts of now, their certificate and the CAs of clients."""
    context = contexts.now().verifying

    def swap(connection: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> None:
        fresh = contexts.now()
        if isinstance(connection, _Connection):
            connection.context, connection.verifying = fresh.answering, fresh.verifying
        else:  # a socket that is waited for has no turns
            connection.context = fresh.verifying

    context.sni_callback = swap  # called without a name, too
    return context


def _state(files: tuple[str, ...]) -> State:
    return tuple(map(_one, files))


def _one(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
