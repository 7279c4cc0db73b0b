"""The kernel's file notifications (inotify) for a changing set of directories."""

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from protocols.process.tasks import wait_set

MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200, 0x400
NAMES = MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF
CONTENTS = NAMES | MODIFY
MOST_REMOVED = 4096
"""Names of removed files that are retained until they are asked for."""
_EVENT = struct.Struct("iIII")
BLIND_S = 1.0
"""Polling interval where the kernel gives no notifications."""


class DirectoryChanges:
    """Waits for changes of names in watched directories, or, with CONTENTS, of their files."""

    def __init__(self, kinds: int = NAMES, blind_s: float = BLIND_S) -> None:
        self._kinds, self._blind_s = kinds, blind_s
        self._event = asyncio.Event()
        self._watched: dict[str, int] = {}
        self._removed: set[str] = set()
        self.fault = ""
        """Reason why some directory is not watched, for users."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            asyncio.get_running_loop().add_reader(self._descriptor, self._readable)
        else:
            self.fault = f"inotify: {os.strerror(ctypes.get_errno())}; raise fs.inotify.max_user_instances"

    @property
    def blind(self) -> bool:
        """True while some directory is not watched, and waiters have to poll."""
        return bool(self.fault)

    def watch(self, directories: Iterable[Path]) -> bool:
        """Watch exactly these; True when one of them is new: what happened in it before was not seen."""
        wanted: dict[str, int] = {}
        if self._descriptor >= 0:
            self.fault = ""
        for path in map(str, directories):
            wanted[path] = self._add(path)
        new = any(descriptor >= 0 and self._watched.get(path) != descriptor for path, descriptor in wanted.items())
        for gone in set(self._watched.values()) - set(wanted.values()) - {-1}:
            self._libc.inotify_rm_watch(self._descriptor, gone)  # fails when the directory is gone: so is the watch
        self._watched = wanted
        return new

    def _add(self, path: str) -> int:
        """Watch a directory and return its descriptor; a directory that is watched already keeps its own."""
        if self._descriptor < 0:
            return -1
        added = int(self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), self._kinds))
        if added < 0:
            self.fault = self.fault or f"cannot watch {path}: {os.strerror(ctypes.get_errno())}"
        return added

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout: float | None = None) -> None:
        """Wait for a change since the last wait, or until the time is over."""
        if self.blind:
            timeout = self._blind_s if timeout is None else min(timeout, self._blind_s)
        await wait_set(self._event, timeout)
        self._event.clear()

    def removed(self) -> set[str]:
        """Return the names that were removed or moved away since the last call, even if they are back."""
        names, self._removed = self._removed, set()
        return names

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _readable(self) -> None:
        """Wake the waiter; an overflow of the kernel's queue is readable, too."""
        with contextlib.suppress(BlockingIOError):
            self._note(os.read(self._descriptor, 64 * 1024))
        self._event.set()

    def _note(self, events: bytes) -> None:
        start = 0
        while start + _EVENT.size <= len(events):
            _, kind, _, size = _EVENT.unpack_from(events, start)
            name = events[start + _EVENT.size : start + _EVENT.size + size].rstrip(b"\0")
            if kind & (MOVED_FROM | DELETE) and len(self._removed) < MOST_REMOVED:
                self._removed.add(os.fsdecode(name))
            start += _EVENT.size + size
