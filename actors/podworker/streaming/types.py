"""The vocabulary of streaming."""

import msgspec

CHUNK = 128 * 1024
"""Bytes read from a log file at once."""


class LogOptions(msgspec.Struct, frozen=True):
    """What of a log is wanted; -1 = no limit."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int = -1
    limit: int = -1
    """Bytes of output."""
    since_ns: int = 0
    stream: str = ""
    """stdout or stderr; empty = both."""


class Where(msgspec.Struct, frozen=True):
    """One container of one pod, as a request names it."""

    namespace: str
    pod: str
    container: str
    uid: str = ""
    """Only this very pod; empty = whichever bears the name."""
