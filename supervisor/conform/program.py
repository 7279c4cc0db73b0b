"""The judged program, which is started, killed and started again, such as COMMAND as a process group."""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from protocols.process.proc import GROUP, pids, stat_number
from protocols.process.texts import signal_name
from supervisor.base.errors import UsageError, explain

END_S = 5.0
MAX_TAIL, LINES = 8192, 20
"""Bytes and lines shown of its output."""


class Program(ABC):
    """One instance; each `start` is a new incarnation."""

    told_to_end = False
    """True once this incarnation was sent a signal, or deleted."""

    @abstractmethod
    async def start(self) -> None:
        """Raises OSError, and UsageError if it cannot be started."""

    @property
    @abstractmethod
    def runs(self) -> bool: ...

    @property
    @abstractmethod
    def end(self) -> str:
        """Return how it ended, as text."""

    @abstractmethod
    async def terminate(self, seconds: float = END_S) -> bool:
        """Send SIGTERM; return True if it ends in time. What is left is killed."""

    @abstractmethod
    async def kill(self) -> None:
        """End it by SIGKILL, if it runs."""

    @abstractmethod
    def processes(self) -> list[Path]:
        """Return the directories below /proc of all its processes."""

    @abstractmethod
    def printed(self) -> tuple[str, ...]:
        """Return the last lines that it printed since the last call."""


class Launcher(Protocol):
    """Makes programs, each an instance of the one that is judged."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of the user's shell commands."""

    def program(self) -> Program:
        """Return an instance that is not started."""

    def excluded(self, name: str, phase: str) -> str:
        """Return why a behaviour does not apply to programs that are started so; empty if it does."""


class CommandLauncher(NamedTuple):
    """`output` is the file that all instances write to."""

    words: Sequence[str]
    environment: Mapping[str, str]
    output: Path

    def program(self) -> Program:
        return CommandProgram(*self)

    def excluded(self, name: str, phase: str) -> str:
        return ""


class CommandProgram(Program):
    """One command line; each `start` is another process. Output goes to a file."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
        self._words, self._environment, self._output = list(words), dict(environment), output
        self._process: asyncio.subprocess.Process | None = None
        output.touch()
        self._mark = output.stat().st_size

    async def start(self) -> None:
        """Start the process as leader of its group. Raises UsageError."""
        self.told_to_end = False
        with self._output.open("ab") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._words,
                    env=self._environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                raise UsageError(f"COMMAND cannot be run: {explain(error)}") from None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def end(self) -> str:
        code = self._process.returncode if self._process else None
        if code is None:
            return "it runs"
        return f"it ended with code {code}" if code >= 0 else f"it was ended by {signal_name(-code)}"

    async def terminate(self, seconds: float = END_S) -> bool:
        """Send SIGTERM to the process, and SIGKILL to what is left of its group."""
        self.told_to_end = True
        if self._process and self.runs:
            self._process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._process.wait()
        ended = not self.runs
        await self.kill()
        return ended

    async def kill(self) -> None:
        """SIGKILL to the group."""
        self.told_to_end = True
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def processes(self) -> list[Path]:
        group = self._process.pid if self._process else 0
        return [Path("/proc", str(pid)) for pid in pids() if group and stat_number(pid, GROUP) == group]

    def printed(self) -> tuple[str, ...]:
        text, self._mark = tail(self._output, self._mark)
        return tuple(text.splitlines()[-LINES:])


def tail(path: Path, mark: int) -> tuple[str, int]:
    """Return the last MAX_TAIL bytes of a file behind a mark, and the mark at its end."""
    with path.open("rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(mark, size - MAX_TAIL))
        return output.read(MAX_TAIL).decode(errors="replace"), size


async def run_shell(script: str, environment: Mapping[str, str], seconds: float) -> None:
    """Run a command of the user's by sh. Raises UsageError if it fails, or does not end in time."""
    code, _ = await _shell(script, environment, seconds, None)
    if code:
        raise UsageError(f"{script!r} ended with code {code}")


async def output_of(script: str, environment: Mapping[str, str], seconds: float, *, quiet: bool = False) -> str:
    """Return what a command of the user's prints, nothing if it fails; `quiet` drops its complaints.

    Raises UsageError if it does not end in time.
    """
    complaints = asyncio.subprocess.DEVNULL if quiet else None
    code, printed = await _shell(script, environment, seconds, asyncio.subprocess.PIPE, complaints)
    return "" if code else printed.decode(errors="replace")


async def _shell(
    script: str, environment: Mapping[str, str], seconds: float, output: int | None, errors: int | None = None
) -> tuple[int, bytes]:
    """Return the exit code, and what it prints to a pipe. Raises UsageError if it does not end in time."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=errors
    )
    try:
        async with asyncio.timeout(seconds):
            printed, _ = await process.communicate()
    except TimeoutError:
        raise UsageError(f"{script!r} did not end within {seconds:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, printed or b""
