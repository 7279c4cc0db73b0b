"""Notice that a file was saved, by the times and sizes of all files below some paths.

Polling needs nothing of the kernel or the file system, and sees what editors do in any way (rename, write in place).
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence

from supervisor.base.errors import UsageError

IGNORED = frozenset({"__pycache__", "node_modules", "venv"})
"""Directories left out, as is whatever begins with a dot (.git, .venv, caches, swap files) or ends with ~."""
MOST_FILES = 10_000
POLL_S = 0.5
TOGETHER_S = 0.2
"""Saves with shorter pauses are one."""
LONGEST_S = 5.0
"""Time after which saves are one no longer: a program may write without end."""

State = dict[str, tuple[int, int]]


class SavedFiles:
    """Files below `paths` that were saved since it was made, or since `take`."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises UsageError for a path that is not there, and for more than MOST_FILES files."""
        for path in paths:
            if not os.path.exists(path):
                raise UsageError(f"--watch {path}: there is no such file or directory")
        self._paths = list(paths)
        self._outputs = own_outputs()
        self._state = self._scan()

    def found(self) -> str:
        """Return a file that was saved, made or removed; empty if there is none."""
        return difference(self._state, self._scan())

    def take(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait until the saves that have begun are over, and begin anew."""
        deadline = time.monotonic() + LONGEST_S
        while (now := self._scan()) != self._state and time.monotonic() < deadline:
            self._state = now
            sleep(TOGETHER_S)

    def _scan(self) -> State:
        state: State = {}
        for path, entry in self._files():
            if (entry.st_dev, entry.st_ino) in self._outputs:
                continue
            state[path] = (entry.st_mtime_ns, entry.st_size)
            if len(state) > MOST_FILES:
                places = ", ".join(self._paths)
                raise UsageError(f"below {places} are more than {MOST_FILES} files; give paths: --watch src tests")
        return state

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        left = [path for path in self._paths if os.path.isdir(path)]
        for path in self._paths:
            if not os.path.isdir(path):
                with contextlib.suppress(OSError):  # an editor may be about to put it there again
                    yield path, os.stat(path)
        while left:
            try:
                entries = list(os.scandir(left.pop()))
            except OSError:  # removed meanwhile, or not readable
                continue
            for entry in entries:
                if _is_ignored(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif (status := _status_of(entry)) is not None:
                    yield entry.path, status


def own_outputs() -> set[tuple[int, int]]:
    """Return device and inode of the files that the output goes to, which grow with each run."""
    return {(status.st_dev, status.st_ino) for status in map(os.fstat, (1, 2))}


def _status_of(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def _is_ignored(name: str) -> bool:
    return name in IGNORED or name.startswith(".") or name.endswith("~")


def difference(before: State, now: State) -> str:
    """Return the first file that differs, without the ./ of the working directory; empty if none does."""
    changed = (path for path in sorted({*before, *now}) if before.get(path) != now.get(path))
    return next(changed, "").removeprefix(f".{os.sep}")
