"""`nodeplane test --watch -- COMMAND`: run the command again after each save, each time on a plane not used before.

The next plane starts while the user reads the result. Nothing of a run can outlast it, unlike with a plane that is
cleaned: objects, plugins, devices, faults and logs are in a root that is removed.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from supervisor.testing.changes import POLL_S, SavedFiles
from supervisor.testing.plane import PlaneNotStarted, TestPlane
from supervisor.testing.run import SIGNALED, Run, end_children

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
