"""COMMAND as a process group: started, killed and started again."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from supervisor.base.errors import Usage

END_S = 5.0
GROUP = 2
"""Position of the process group in /proc/PID/stat, behind the name."""
MAX_TAIL, LINES = 8192, 20
"""Bytes and lines shown of its output."""


class Runnable(NamedTuple):
    """Seconds that a thread ran, and that it was ready to and waited for a processor."""

    ran: float
    waited: float


class Program:
    """One command line; each `start` is another process. Output goes to a file."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
        self._words, self._environment, self._output = list(words), dict(environment), output
        self._process: asyncio.subprocess.Process | None = None
        output.touch()
        self._mark = output.stat().st_size

    async def start(self) -> None:
        """Start the process as leader of its group. Raises OSError."""
        with self._output.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._words,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def end(self) -> str:
        """Return the exit code or signal as text."""
        code = self._process.returncode if self._process else None
        if code is None:
            return "it runs"
        return f"it ended with code {code}" if code >= 0 else f"it was ended by {signal.Signals(-code).name}"

    async def terminate(self, seconds: float = END_S) -> bool:
        """Send SIGTERM to the process; return True if it ends in time. What is left of its group is killed."""
        if self._process and self.runs:
            self._process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), seconds)
        ended = not self.runs
        await self.kill()
        return ended

    async def kill(self) -> None:
        """SIGKILL to the group."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def threads(self) -> dict[str, Runnable]:
        """Return what the scheduler says of each thread of its group. Empty where the kernel counts nothing."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                group = int(path.read_text().rpartition(")")[2].split()[GROUP])
                if self._process and group == self._process.pid:
                    found.update(_threads(path.parent))
        return found

    def printed(self) -> tuple[str, ...]:
        """Return the last lines that it printed since the last call."""
        with self._output.open("rb") as output:
            size = output.seek(0, os.SEEK_END)
            output.seek(max(self._mark, size - MAX_TAIL))
            text = output.read(MAX_TAIL).decode(errors="replace")
        self._mark = size
        return tuple(text.splitlines()[-LINES:])


def _threads(process: Path) -> dict[str, Runnable]:
    found = {}
    for path in process.glob("task/*/schedstat"):
        with suppress(OSError):
            ran, waited, _ = path.read_text().split()
            found[path.parent.name] = Runnable(int(ran) / 1e9, int(waited) / 1e9)
    return found


async def run_shell(script: str, environment: Mapping[str, str], seconds: float) -> None:
    """Run a command of the user's by sh. Raises Usage if it fails, or does not end in time."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, env=environment, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        code = await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Usage(f"{script!r} did not end within {seconds:g} s") from None
    if code:
        raise Usage(f"{script!r} ended with code {code}")


async def output_of(script: str, environment: Mapping[str, str], seconds: float) -> str:
    """Return what a command of the user's prints, nothing if it fails. Raises Usage if it does not end in time."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Usage(f"{script!r} did not end within {seconds:g} s") from None
    return "" if process.returncode else printed.decode(errors="replace")
