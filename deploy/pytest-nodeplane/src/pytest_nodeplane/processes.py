"""Processes of a test beside its plane: the plugin, driver or agent under test."""

import contextlib
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from supervisor.testing.programs import record

STOP_S = 5.0
MAX_OUTPUT = 64 << 10
"""Bytes at the end of a process' output that a report shows."""


class Process:
    """A started process; the fixture stops it with its children at the end of the test.

    With a record in the directory `records`, the plane stops it where pytest was killed before.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], records: Path | None = None) -> None:
        self.command = list(command)
        self._environment, self._records = dict(environment), records
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 # until `close`
        self._replacing = threading.RLock()
        """Held while another process takes the place of one that `crash` killed."""
        self._spawn()

    def _spawn(self) -> None:
        self._process = subprocess.Popen(
            self.command,
            env=self._environment,
            stdout=self._output,
            stderr=self._output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._record = record(self._records, self._process.pid) if self._records else None

    @property
    def pid(self) -> int:
        with self._replacing:
            return self._process.pid

    @property
    def name(self) -> str:
        """The program, or the script that it runs: `my-plugin`, `plugin.py`, `nodeplane watch`."""
        return program_name(self.command)

    @property
    def has_ended(self) -> bool:
        """True when neither the process nor a child of its group runs."""
        if self.runs:
            return False
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    @property
    def runs(self) -> bool:
        with self._replacing:
            return self._process.poll() is None

    @property
    def output(self) -> str:
        """The end of what it wrote to standard output and error."""
        descriptor = self._output.fileno()  # the process writes at its position, which must not move
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, MAX_OUTPUT, max(0, size - MAX_OUTPUT)).decode(errors="replace")

    def wait(self, timeout: float = 30.0) -> int:
        """Return its exit code. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while self.runs and time.monotonic() < deadline:  # again where another process took its place
            _await_end(self.pid, max(0.0, deadline - time.monotonic()))
        return self._process.wait(0)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it and its children as a crash does, with SIGKILL."""
        self._signal_all(signal.SIGKILL)
        self._process.wait()

    def crash(self, killed: Callable[[], None]) -> None:
        """End it with its children by SIGKILL, call `killed`, and start it again, as a DaemonSet does."""
        with self._replacing:
            try:
                self.kill()
            finally:
                killed()
            if self._record:
                self._record.unlink(missing_ok=True)
            self._spawn()

    def terminate(self) -> None:
        """Send SIGTERM to it and its children, and do not wait."""
        if self.runs:
            self._signal_all(signal.SIGTERM)

    def stop(self) -> None:
        """End it and its children with SIGTERM, after STOP_S with SIGKILL."""
        if self.runs:
            self.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(STOP_S)
        self.kill()

    def _signal_all(self, number: int) -> None:
        """Send a signal to the process and to what it started: `go run` and shells do not pass signals on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        self.stop()
        if self._record:
            self._record.unlink(missing_ok=True)
        self._output.close()


def _await_end(pid: int, timeout: float) -> None:
    """Wait for a child at most so long; subprocess asks again and again, with pauses of up to 50 ms."""
    descriptor = os.pidfd_open(pid)
    try:
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        watched.poll(1000 * timeout)
    finally:
        os.close(descriptor)


INTERPRETER = re.compile(r"(python|pypy)[\d.]*|sh|bash|node|ruby|perl")
WITH_COMMANDS = ("nodeplane", "go", "kubectl")
"""Programs whose first word says more than their name."""


def program_name(command: Sequence[str]) -> str:
    """Return the name of a program for a report; that of the script for an interpreter."""
    name, words = Path(command[0]).name, [word for word in command[1:] if not word.startswith("-")]
    if not words:
        return name
    if INTERPRETER.fullmatch(name):
        return name if "-c" in command else Path(words[0]).name
    return f"{name} {words[0]}" if name in WITH_COMMANDS else name
