"""The shim's socket file: whoever connects is a stranger until its first message says that it is a runtime.

Strangers are few at most, cost nothing, and never part the shim from the runtime it has.
"""

import contextlib
import os
import select
import socket

from actors.runtime.shim import link, record

GREETING = "adopt"
"""What a runtime says first."""

_BACKLOG = 128
"""A runtime that finds no room here takes the shim for dead."""
_STRANGERS = 8


class Door:
    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ready = select.epoll()
        self._strangers: dict[int, socket.socket] = {}

    def open(self) -> None:
        old_mask = os.umask(0o177)
        self._listener.bind(record.SOCKET)
        os.umask(old_mask)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._ready.register(self._listener, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when runtime() has something to look at."""
        return self._ready.fileno()

    def runtime(self) -> socket.socket | None:
        """A connection that has just greeted."""
        for descriptor, _ in self._ready.poll(0):
            if descriptor == self._listener.fileno():
                self._let_in()
            elif descriptor in self._strangers and _greets(connection := self._dismiss(descriptor)):
                return connection
        return None

    def _let_in(self) -> None:
        """One too many: the one that has been silent longest has to go."""
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._strangers) == _STRANGERS:
                self._dismiss(next(iter(self._strangers))).close()
            self._strangers[connection.fileno()] = connection
            self._ready.register(connection, select.EPOLLIN)

    def _dismiss(self, descriptor: int) -> socket.socket:
        self._ready.unregister(descriptor)
        return self._strangers.pop(descriptor)


def _greets(connection: socket.socket) -> bool:
    """Closes one that does not."""
    message, descriptors = link.receive(connection)
    for descriptor in descriptors:
        os.close(descriptor)
    if message is not None and message.get("op") == GREETING:
        return True
    connection.close()
    return False
