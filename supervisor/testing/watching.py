"""`nodeplane test --watch -- COMMAND`: run the command again after each save, each time on a plane not used before.

The next plane starts while the user reads the result. Nothing of a run can outlast it, unlike with a plane that is
cleaned: objects, plugins, devices, faults and logs are in a root that is removed.

A save is noticed by the times and sizes of all files below some paths. Polling needs nothing of the kernel or the file
system, and sees what editors do in any way (rename, write in place).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from supervisor.base.errors import UsageError
from supervisor.testing.plane import PlaneNotStarted, TestPlane
from supervisor.testing.run import SIGNALED, Run, end_children

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


STOP_S = 5.0
"""From SIGTERM to SIGKILL for a command whose files were saved while it ran."""
TICK_S = 0.05


class WatchRun(Run):
    """One command, again and again; `make` makes a plane for each run."""

    def __init__(self, make: Callable[[], TestPlane], words: Sequence[str], kept: str, paths: Sequence[str]) -> None:
        self._changes = SavedFiles(paths)
        super().__init__(make(), words, kept)
        self._make, self._chosen, self._paths = make, kept, list(paths)
        self._result, self._took_s = 0, 0.0
        self._next_poll = 0.0

    def _run(self) -> int:
        self._start()
        while not self._signal:
            saved = self._run_until_saved()
            fresh_s = self._renew() if not self._signal else 0.0
            if not self._signal:
                self._say(saved, fresh_s)
                saved = saved or self._wait_saved()
            if saved:
                self._changes.take()
        return self._result

    def _start(self) -> float:
        """Start the plane; return the seconds. Raises PlaneNotStarted unless a signal ends all."""
        began = time.monotonic()
        try:
            self._plane.start(stopped=lambda: bool(self._signal))
        except PlaneNotStarted:
            if not self._signal:
                raise
        return time.monotonic() - began

    def _renew(self) -> float:
        self._plane.stop()
        end_children()
        self._plane = self._make()
        return self._start()

    def _run_until_saved(self) -> str:
        """Run the command; return the file whose save ended it, or empty with its exit code in `_result`."""
        command, began, saved = self._spawn(), time.monotonic(), ""
        while not saved and not self._ended(command):
            time.sleep(TICK_S)
            if saved := self._saved():
                self._end(command)
        self._took_s = time.monotonic() - began
        if saved:
            return saved
        self._result = command.returncode if command.returncode >= 0 else SIGNALED - command.returncode
        if not self._signal:
            self._remove_kept()
            self._keep_if_failed(self._result)
        return ""

    def _ended(self, command: "subprocess.Popen[bytes]") -> bool:
        """Reap what has ended: the command, its orphans, the plane."""
        while command.returncode is None:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return False
            if pid == command.pid:
                command.returncode = os.waitstatus_to_exitcode(status)
            self._plane.reaped(pid, status)
        return True

    def _end(self, command: "subprocess.Popen[bytes]") -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                command.send_signal(number)
            deadline = time.monotonic() + STOP_S
            while not self._ended(command) and time.monotonic() < deadline:
                time.sleep(TICK_S)

    def _saved(self) -> str:
        if time.monotonic() < self._next_poll:
            return ""
        saved = self._changes.found()
        self._next_poll = time.monotonic() + POLL_S
        return saved

    def _wait_saved(self) -> str:
        """Return the file that was saved; empty after a signal."""
        while not self._signal:
            if saved := self._saved():
                print(f"nodeplane: {saved} was saved", file=sys.stderr)
                return saved
            time.sleep(TICK_S)
        return ""

    def _say(self, saved: str, fresh_s: float) -> None:
        fresh = f"(fresh plane in {fresh_s:.1f} s)"
        if saved:
            text = f"{saved} was saved: ended after {self._took_s:.1f} s {fresh}, beginning again"
        else:
            word = f"failed with {self._result}" if self._result else "passed"
            text = f"{word} in {self._took_s:.1f} s {fresh}, waiting for a change below {', '.join(self._paths)}"
        print(f"nodeplane: {text}", file=sys.stderr, flush=True)

    def _remove_kept(self) -> None:
        """Remove the logs of the last failure, unless the user has chosen their directory."""
        if self._kept and not self._chosen:
            shutil.rmtree(self._kept, ignore_errors=True)
            self._kept = ""
