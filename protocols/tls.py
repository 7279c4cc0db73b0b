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

from protocols.errors import NodeplaneError

log = logging.getLogger(__name__)
Made = TypeVar("Made")
State = tuple[tuple[int, int, int], ...]


class Renewed(Generic[Made]):
    """What is made of some files, made again when one of them is another. Raises what `make` does, at once only."""

    def __init__(self, files: Iterable[Path | None], make: Callable[[], Made], what: str = "certificates") -> None:
        self._files = tuple(path for path in files if path is not None)
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


def serving(contexts: Renewed[ssl.SSLContext]) -> ssl.SSLContext:
    """To listen with: each handshake goes on with the context of now, its own certificate and the CAs of clients."""
    context = contexts.now()

    def swap(connection: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> None:
        fresh = contexts.now()
        if fresh is not connection.context:
            connection.context = fresh

    context.sni_callback = swap  # called without a name, too
    return context


def _state(files: tuple[Path, ...]) -> State:
    return tuple(map(_one, files))


def _one(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
