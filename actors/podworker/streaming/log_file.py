"""Reads one container's log from disk, across rotation. File access happens in threads; one chunk is held at a time."""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncGenerator, Callable
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from actors.podworker.streaming.log_lines import Renderer
from actors.podworker.streaming.log_tail import tail_offset
from actors.podworker.streaming.types import CHUNK, LogOptions
from protocols.files import open_regular
from protocols.inotify import CONTENTS, Changes

LOOK_S = 0.5
"""How often a follower looks whether its container still runs, when the log is silent."""
BLIND_S = 0.25
"""Pause between looks without the kernel's notifications."""
SETTLE_S = 0.02
"""Pause after a change, so that a container that writes line by line is not read line by line."""


class End(Enum):
    """What the end of a file means to a follower."""

    WAIT = "nothing new yet"
    MORE = "it has grown"
    ANOTHER = "reading goes on at the start of another file"


class LogFile:
    """An open log and the place reached in it.

    A file that is not there (yet) reads as empty, and so does what is no file: a container that may write to the logs'
    directory could have put a link to any file of the host there.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def open(self, tail: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._file = self._opened()
        if self._file is not None:
            self._file.seek(tail_offset(self._file, tail) if tail >= 0 else 0)

    def _opened(self) -> BinaryIO | None:
        try:
            return open_regular(self._path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EINVAL):
                return None
            raise

    def read(self) -> bytes:
        return self._file.read(CHUNK) if self._file is not None else b""

    def at_end(self) -> End:
        """What to do at the end of the file. A writer opens the new file before it lets go of the old one: whoever sees
        the new one reads the old one to its end once more, and has then all of it.
        """
        try:
            there = os.lstat(self._path)
        except OSError:
            return End.WAIT  # renamed and not opened anew: the writer still writes to what we have
        if self._file is None:
            return self._switch()
        here = os.fstat(self._file.fileno())
        if here.st_size > self._file.tell():
            return End.MORE
        if here.st_size < self._file.tell():
            self._file.seek(0)
            return End.ANOTHER
        return End.WAIT if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) else self._switch()

    def _switch(self) -> End:
        self.close()
        self.open(-1)
        return End.ANOTHER if self._file is not None else End.WAIT

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def read_log(path: str, options: LogOptions, running: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """What a reader gets, chunk by chunk; with `follow` until the container has ended and all it wrote was read."""
    renderer, file = Renderer(options), LogFile(path)
    changes = _watching(path) if options.follow else None
    try:
        await asyncio.to_thread(file.open, options.tail)
        while not renderer.full:
            alive = running()  # before the read: what an ended container wrote is all there
            async for shown in _rest(file, renderer):
                yield shown
            if renderer.full or changes is None:
                return
            end = await asyncio.to_thread(file.at_end)
            if end is End.ANOTHER:
                renderer.reset()
            if end is End.WAIT:
                if not alive:
                    return
                await changes.wait(LOOK_S)
                await asyncio.sleep(SETTLE_S)
    finally:
        if changes is not None:
            changes.close()
        file.close()


async def _rest(file: LogFile, renderer: Renderer) -> AsyncGenerator[bytes, None]:
    while not renderer.full and (data := await asyncio.to_thread(file.read)):
        if shown := renderer.feed(data):
            yield shown


def _watching(path: str) -> Changes:
    changes = Changes(CONTENTS, BLIND_S)
    changes.watch([Path(path).parent])
    return changes
