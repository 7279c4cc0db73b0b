"""The callee's memory of request ids: a retry of what ran or runs is answered, not run again. Pure, bounded."""

from collections import OrderedDict
from enum import Enum

import msgspec


class Verdict(Enum):
    RUN = 1
    WAIT = 2
    """It runs: its reply goes to whoever asked last."""
    REPLAY = 3
    """It ran: the stored reply answers."""
    FULL = 4


class ServedLimits(msgspec.Struct, frozen=True):
    running: int = 256
    replies: int = 2048
    reply_bytes: int = 8 << 20


class Served:
    def __init__(self, limits: ServedLimits | None = None) -> None:
        self._limits = limits or ServedLimits()
        self._running: dict[str, bytes] = {}
        self._replies: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    @property
    def running(self) -> int:
        return len(self._running)

    def judge(self, id: str, peer: bytes) -> Verdict:
        """What to do with a request; RUN also notes that it runs."""
        if id in self._running:
            self._running[id] = peer
            return Verdict.WAIT
        if id in self._replies:
            return Verdict.REPLAY
        if len(self._running) >= self._limits.running:
            return Verdict.FULL
        self._running[id] = peer
        return Verdict.RUN

    def reply(self, id: str) -> bytes:
        return self._replies[id]

    def done(self, id: str, reply: bytes, keep: bool) -> bytes:
        """It has finished; returns whom to answer. `keep`: a retry may come."""
        peer = self._running.pop(id)
        if keep:
            self._replies[id] = reply
            self._bytes += len(reply)
            self._trim()
        return peer

    def _trim(self) -> None:
        while len(self._replies) > self._limits.replies or self._bytes > self._limits.reply_bytes:
            _, reply = self._replies.popitem(last=False)
            self._bytes -= len(reply)
