"""Loaded by every Python process that has this directory on PYTHONPATH: its wall clock stands off by what a file says.

The file named by NODEPLANE_TEST_CLOCK holds seconds and is read once a second. Monotonic time, and the time OpenSSL
sees, stay as they are. (libfaketime did this before; under it CPython's sleeps fail with EINVAL and threads that wait
for the interpreter's lock are sometimes not woken.)
"""

import datetime as datetime_module
import os
import sys
import time as time_module
from typing import Any

FILE = os.environ.get("NODEPLANE_TEST_CLOCK", "")
Real = datetime_module.datetime
real_time_ns, monotonic = time_module.time_ns, time_module.monotonic
real_gmtime, real_localtime = time_module.gmtime, time_module.localtime
known = [0.0, -1.0]


def offset() -> float:
    """Seconds the clock is ahead."""
    if (now := monotonic()) - known[1] > 1:
        known[1] = now
        try:
            with open(FILE) as file:
                known[0] = float(file.read())
        except (OSError, ValueError):
            pass  # being written: what was known holds for one more second
    return known[0]


def time_ns() -> int:
    return real_time_ns() + int(offset() * 1e9)


def time() -> float:
    """gRPC for Python reckons deadlines by it, but its core, in C, has the real one: both must be the same."""
    if sys._getframe(1).f_globals.get("__name__", "").startswith("grpc."):
        return real_time_ns() / 1e9
    return time_ns() / 1e9


class Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Real)


class Moved(Real, metaclass=Kind):
    """`datetime` whose now is the moved one."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.fromtimestamp(time(), tz)


class Told:
    """gmtime or localtime; an object, for `logging` keeps it in a class, where a function would bind."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __call__(self, seconds: float | None = None, /) -> Any:
        return self.real(time() if seconds is None else seconds)


if FILE:
    time_module.time, time_module.time_ns = time, time_ns
    moved: Any = time_module
    moved.gmtime, moved.localtime = Told(real_gmtime), Told(real_localtime)
    datetime_module.datetime = Moved  # type: ignore[misc]  # that is what this file is for
