"""A thread that sees when the event loop makes no turn, and records what holds it.

It needs the interpreter: while one call of a C function keeps the GIL, nothing is recorded.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import msgspec

from protocols.process import stalls
from protocols.process.stalls import Stall

EVERY_S = 1.0
LATE_S = 2.0
"""The loop is held when it did not answer for this long; well before its supervisor ends the process."""


class Cause(msgspec.Struct, frozen=True):
    """As in Stall."""

    what: str
    key: str = ""


Find = Callable[[FrameType], Cause | None]
"""Names the cause by the frame that the loop's thread executes now."""


class LoopMonitorOptions(msgspec.Struct, frozen=True, kw_only=True):
    run: Path
    instance: str
    find: Find
    each_round: Callable[[], None]
    """Called by the thread once in EVERY_S."""


class LoopMonitor:
    """Start it in the loop's own thread."""

    def __init__(self, options: LoopMonitorOptions) -> None:
        self._options = options
        self._closing = threading.Event()
        self._turned_at = time.monotonic()
        self._asked = self._recorded = False
        self._thread = threading.Thread(target=self._run, name="loop-monitor", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._turned_at = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(EVERY_S)
        self._forget()

    def _turned(self) -> None:
        """In the loop."""
        self._turned_at = time.monotonic()
        self._asked = False

    def _run(self) -> None:
        while not self._closing.wait(EVERY_S):
            with suppress(OSError):  # a full disk is no reason to end
                self._round()

    def _round(self) -> None:
        self._options.each_round()
        if self._asked and time.monotonic() - self._turned_at >= LATE_S:
            if not self._recorded:
                self._record()
            return
        self._forget()
        if not self._asked:
            self._asked = True
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
