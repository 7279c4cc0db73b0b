"""Requests that block the event loop: recorded while they do, and rejected afterwards by every process of the port.

- A thread asks the event loop for a turn once a second. If it gets none for LATE_S, in which it works, the request that
  the loop executes is recorded (protocols/process/stalls.py). The thread needs the GIL: while one call of a C function
  holds it, nothing is recorded.
- While a record counts, requests of the same user and shape get 429. A shape is method, resource and subresource; of
  the plane's own users it is the whole path and query, so that one request of theirs stops no other.
- Every process of the port reads the records once a second and before it listens.
"""

import asyncio
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import msgspec
from aiohttp import web

from actors.apiserver.api.errors import TooManyRequests
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import ACCOUNT, User
from actors.apiserver.http.routing.call import Call
from protocols.process import stalls
from protocols.process.stalls import Stall

EVERY_S = 1.0
LATE_S = 2.0
"""The loop counts as blocked after this time without a turn: well before the supervisor ends the process."""
WORKED_S = 0.5
"""CPU time of the loop meanwhile, below which a busy machine is to blame, not the request."""


class Cause(msgspec.Struct, frozen=True):
    """The fields of a Stall that name its request."""

    what: str
    key: str = ""


Find = Callable[[FrameType], Cause | None]
"""Return the cause by the frame that the loop's thread executes."""


class LoopMonitorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Place of the records, and `find`, which returns the request that runs now."""

    run: Path
    instance: str
    find: Find
    each_round: Callable[[], None]
    """Called by the thread once in EVERY_S."""


class LoopMonitor:
    """The thread that watches the event loop. Call `start` in the loop's own thread."""

    def __init__(self, options: LoopMonitorOptions) -> None:
        self._options = options
        self._closing = threading.Event()
        self._turned_at = time.monotonic()
        self._asked = self._recorded = False
        self._asked_cpu_s = 0.0
        self._thread = threading.Thread(target=self._run, name="loop-monitor", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._loop_thread)
        self._turned_at = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(EVERY_S)
        self._forget()

    def _turned(self) -> None:
        """Runs in the loop."""
        self._turned_at = time.monotonic()
        self._asked = False

    def _run(self) -> None:
        while not self._closing.wait(EVERY_S):
            with suppress(OSError):  # a full disk must not end the thread
                self._round()

    def _round(self) -> None:
        self._options.each_round()
        if self._asked and time.monotonic() - self._turned_at >= LATE_S:
            if not self._recorded and time.clock_gettime(self._clock) - self._asked_cpu_s >= WORKED_S:
                self._record()
            return
        self._forget()
        if not self._asked:
            self._asked, self._asked_cpu_s = True, time.clock_gettime(self._clock)
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._turned)

    def _record(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None:
            return
        cause = self._options.find(frame) or Cause(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        options = self._options
        self._recorded = True
        stalls.write(options.run, Stall(options.instance, os.getpid(), time.time(), cause.what, cause.key))

    def _forget(self) -> None:
        if self._recorded:
            self._recorded = False
            stalls.remove(self._options.run, self._options.instance, os.getpid())


SHOWN = 256
"""Characters of a user and of a path in a record."""
OWN = "system:"


def shape_of(http: web.BaseRequest, user: User, target: Target | None) -> str:
    """Return the key under which a request of this user is refused."""
    own = user.name.startswith(OWN) and not user.name.startswith(ACCOUNT)
    if target is None or own:
        path = http.rel_url.raw_path_qs if own else http.rel_url.raw_path
        return f"{user.name[:SHOWN]} {http.method} {path[: 4 * SHOWN]}"
    row = target.resource
    return f"{user.name[:SHOWN]} {http.method} {row.full_name}/{target.subresource}"


def cause_of(frame: FrameType | None) -> Cause | None:
    """Return the request that a thread works on, by its stack; None if it works on none."""
    while frame is not None:
        if frame.f_code.co_name == "__call__" and isinstance(call := frame.f_locals.get("call"), Call):
            return _cause(call)
        frame = frame.f_back
    return None


def _cause(call: Call) -> Cause:
    http = call.http
    user = call.identity.user if call.identity is not None else None
    name = user.name[:SHOWN] if user is not None else ""
    path = http.rel_url.raw_path_qs[:SHOWN]
    key = "" if user is None else shape_of(http, user, call.target)
    return Cause(f"user={name!r} verb={call.verb[:SHOWN]} path={path!r}", key)


class StalledRequests:
    """The records as this process last read them. `read` may run in any thread."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._stalls: dict[str, Stall] = {}

    def read(self) -> None:
        self._stalls = {stall.key: stall for stall in stalls.read_all(self._run) if stall.key}

    def check(self, http: web.BaseRequest, user: User, target: Target | None) -> None:
        """Raises TooManyRequests for a request of a shape that holds, or ended, a process."""
        if not self._stalls:
            return
        stall = self._stalls.get(shape_of(http, user, target))
        left = 0 if stall is None else math.ceil(stall.expires - time.time())
        if left > 0:
            raise TooManyRequests(
                f"a request like this one blocked an API server process, so it is refused for {left} s: "
                "change it, or try again then",
                retry_after=left,
            )
