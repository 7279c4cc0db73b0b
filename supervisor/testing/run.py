"""One run of a command beside a plane, and the end of all processes that it left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from protocols.process.linux import adopt_descendants
from supervisor.testing.evidence import evidence
from supervisor.testing.plane import SHORT, FlagsRejected, PlaneNotStarted, TestPlane

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to the command as well."""
SIGNALED = 128
LEFT_S = 2.0
KEPT = ("logs", "pods-logs", "up.log")


class Run:
    """One command beside one plane."""

    def __init__(self, plane: TestPlane, words: Sequence[str], kept: str) -> None:
        self._plane, self._words, self._kept = plane, words, kept
        self._command: subprocess.Popen[bytes] | None = None
        self._signal = 0

    def run(self) -> int:
        adopt_descendants()
        before = {number: signal.signal(number, self._forward) for number in FORWARDED}
        try:
            return self._run()
        finally:
            self._plane.stop()
            end_children()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> int:
        try:
            self._plane.start(stopped=lambda: bool(self._signal))
        except PlaneNotStarted as error:
            if self._signal:
                return SIGNALED + self._signal
            if not isinstance(error, FlagsRejected):  # nothing ran that could have logs
                self._keep("the plane did not start")
            raise
        code = self._run_command()
        self._keep_if_failed(code)
        return code

    def _keep_if_failed(self, code: int) -> None:
        if not self._plane.runs():
            self._keep(f"the plane ended before {self._words[0]}, which ended with {code}")
        elif code != 0:
            self._keep(f"{self._words[0]} ended with {code}")

    def _run_command(self) -> int:
        return self._wait(self._spawn())

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._command = subprocess.Popen(self._words, env={**os.environ, **self._plane.environment()})
        if self._signal:  # it came while nothing ran
            self._command.send_signal(self._signal)
        return self._command

    def _wait(self, command: "subprocess.Popen[bytes]") -> int:
        """Wait for the command, and reap what it orphaned meanwhile."""
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == command.pid:
                command.returncode = os.waitstatus_to_exitcode(status)
                return command.returncode if command.returncode >= 0 else SIGNALED - command.returncode
            self._plane.reaped(pid, status)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self._signal = self._signal or number
        shared = number in FROM_TERMINAL and _in_foreground()
        if self._command and self._command.returncode is None and not shared:
            self._command.send_signal(number)

    def _keep(self, reason: str) -> None:
        """Retain logs, status and events of the plane, and nothing else of its root: it has keys."""
        answers = evidence(self._plane.layout) if self._plane.runs() else {}
        try:
            self._kept = self._kept or tempfile.mkdtemp(prefix=f"{self._plane.root.name}-logs-", dir=SHORT)
            write_evidence(self._plane.root, answers, Path(self._kept))
        except (OSError, shutil.Error) as error:  # the exit code of the command counts
            print(f"nodeplane: {reason}; logs of the plane were not kept: {error}", file=sys.stderr)
        else:
            print(f"nodeplane: {reason}; logs of the plane: {self._kept}", file=sys.stderr)


def write_evidence(root: Path, found: Mapping[str, str], target: Path) -> None:
    """Write texts and copy logs. Raises OSError, shutil.Error."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in found.items():
        (target / f"{name}.txt").write_text(text)
    for name in KEPT:
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, dirs_exist_ok=True)
        elif (root / name).exists():
            shutil.copy(root / name, target / name)


def _in_foreground() -> bool:
    """Return True if a terminal sends its signals to this process and to the command."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def end_children() -> None:
    """End the processes that the command left behind: SIGTERM, and after LEFT_S SIGKILL."""
    deadline = time.monotonic() + LEFT_S
    for number, until in ((signal.SIGTERM, deadline), (signal.SIGKILL, deadline + LEFT_S)):
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while _reap_all() and time.monotonic() < until:
            time.sleep(0.02)


def _children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def _reap_all() -> bool:
    """Reap the children that have ended; return True while others live."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
