"""The vocabulary of the front door."""

from enum import IntEnum

import msgspec


class Action(IntEnum):
    """What a watch message says; the numbers are the wire's."""

    ADDED = 0
    DELETED = 1
    UPDATED = 2
    BOOKMARK = 3


class Entry(msgspec.Struct, frozen=True):
    """One watch message, encoded once for all clients, and the position it leads to."""

    position: int
    message: bytes


class Limits(msgspec.Struct, frozen=True):
    ring: int = 4096
    """Events kept for clients that come back."""
    queue: int = 1024
    """Events a watcher may be behind."""
    watchers: int = 64
    last_words: float = 5.0
    """Seconds for a slow watcher to take what was queued before its stream ends."""
    rate: float = 100.0
    """Unary calls a second, of all clients together."""
    burst: int = 10
