"""The kernel's file notifications, as much of them as a plugin needs: something changed in a directory."""

import asyncio
import ctypes
import os
from pathlib import Path

from supervisor.plugin.errors import WatchFailed

IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x8, 0x80, 0x100, 0x200
CHANGES = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE


class Changes:
    """An event that is set whenever something changes in one of the directories."""

    def __init__(self, *directories: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise WatchFailed(f"inotify: {os.strerror(ctypes.get_errno())}; raise fs.inotify.max_user_instances")
        self._event = asyncio.Event()
        for directory in directories:
            self._add(directory)
        asyncio.get_running_loop().add_reader(self._descriptor, self._readable)

    def _add(self, directory: Path) -> None:
        if self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), CHANGES) < 0:
            why = os.strerror(ctypes.get_errno())
            os.close(self._descriptor)
            raise WatchFailed(f"cannot watch {directory}: {why}")

    def _readable(self) -> None:
        """What exactly happened does not matter: who waits looks for itself."""
        os.read(self._descriptor, 64 << 10)
        self._event.set()

    async def wait(self, timeout: float | None = None) -> None:
        """Until something has changed since the last wait, or the time is over."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()

    def wake(self) -> None:
        """As if something had changed."""
        self._event.set()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
