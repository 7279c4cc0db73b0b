"""The trace of a run: a hash over everything that happened, and the bounded timeline for readers."""

import hashlib
import struct
import sys
import zlib
from collections.abc import Callable

from tests.simulation.model import Happening

FLUSH = 1 << 20
MOST_EVENTS = 5_000
DIGEST = b"DIGEST"
"""Marks messages with a digest of objects, which may have the root in a text: only their length is in the trace."""
_turn = struct.Struct("<cdI").pack
_message = struct.Struct("<cdIIII").pack


class Trace:
    """`turn` and `message` are called hundreds of thousands of times a second: they only append."""

    def __init__(self, root: str, *, show: bool = False) -> None:
        self._root = root.encode()
        """Differs from run to run, so it is left out of messages."""
        self._hash = hashlib.sha256()
        self._buffer = bytearray()
        self.sum: Callable[[bytes], int] = zlib.crc32
        """What of a message is in the trace, beside its length."""
        self._show = show
        self.events: list[Happening] = []
        self.turns = 0
        self.messages = 0

    def turn(self, now: float, process: int) -> None:
        self.turns += 1
        self._buffer += _turn(b"t", now, process)
        if len(self._buffer) > FLUSH:
            self._flush()

    def message(self, now: float, sender: int, receiver: int, data: bytes) -> None:
        self.messages += 1
        if self._root in data:
            data = data.replace(self._root, b"/")
        if DIGEST in data:
            data = bytes(len(data))
        self._buffer += _message(b"m", now, sender, receiver, len(data), self.sum(data))
        if self._show:
            print(f"{now:.6f} {sender} -> {receiver} {data!r}", file=sys.stderr)

    def happened(self, now: float, process: str, text: str) -> None:
        """Record an event of the timeline."""
        text = text.replace(self._root.decode(), "")
        self._buffer += f"e{now!r}{process}{text}".encode()
        if len(self.events) < MOST_EVENTS:
            self.events.append(Happening(now, process, text))
        if self._show:
            print(f"{now:.6f} {process}: {text}", file=sys.stderr)

    def digest(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(self._buffer)
        self._buffer.clear()
