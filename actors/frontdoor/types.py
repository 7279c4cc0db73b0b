"""The vocabulary of the front door."""

from enum import IntEnum
from pathlib import Path

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
    pods_queue: int = 100
    """Events a watcher of the pods API may be behind."""
    last_words: float = 5.0
    """Seconds for a slow watcher to take what was queued before its stream ends."""


class Place(msgspec.Struct, frozen=True):
    """A public socket, and gRPC's own behind it."""

    socket: Path
    private: Path
    mode: int = 0o600
    group: int = -1
