"""The kernel's file notifications for one log directory; where they cannot be had, waiting falls back to the clock."""

import asyncio
import contextlib
import ctypes
import os

IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
CHANGES = IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
POLL_S = 0.25
"""Pause between looks without notifications."""


class Changes:
    """`wait` returns soon after something in the directory changed. Costs nothing while nothing does."""

    def __init__(self, directory: str) -> None:
        self._event = asyncio.Event()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            if self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), CHANGES) < 0:
                os.close(self._descriptor)
                self._descriptor = -1
            else:
                asyncio.get_running_loop().add_reader(self._descriptor, self._on_readable)

    async def wait(self, timeout: float) -> None:
        """Until a change since the last wait, or the time is over."""
        if self._descriptor < 0:
            timeout = min(timeout, POLL_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        self._event.clear()

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _on_readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, 64 * 1024)
        self._event.set()
