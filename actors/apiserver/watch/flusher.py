"""Hands what is pending to the connections: once a loop turn, in one write each, framed once for all that get the same.

A change for a thousand watches wakes no task. Only a watch whose connection is congested wakes its own.
"""

import asyncio

from actors.apiserver.watch.watcher import Watcher

Framed = dict[tuple[bytes, ...], bytes]


class Flusher:
    """Bound to the running loop when first used."""

    def __init__(self) -> None:
        self._due: list[Watcher] = []

    def want(self, watcher: Watcher) -> None:
        """`watcher` has something for its connection."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._flush)
        self._due.append(watcher)

    def _flush(self) -> None:
        due, self._due = self._due, []
        framed: Framed = {}
        for watcher in due:
            pending = watcher.pending_events()
            if pending and watcher.direct is not None:
                data = framed.get(pending)
                if data is None:
                    data = framed[pending] = chunk(pending)
                watcher.hand_over(data)


def chunk(events: tuple[bytes, ...]) -> bytes:
    """One chunk of a chunked body."""
    size = sum(map(len, events))
    return b"".join((b"%x\r\n" % size, *events, b"\r\n"))
