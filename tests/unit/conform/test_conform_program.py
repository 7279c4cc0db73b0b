"""The judged command: how it ends."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from protocols.process.tasks import Tasks
from supervisor.base.errors import UsageError
from supervisor.conform.program import CommandProgram, output_of


async def test_end_by_a_signal_without_a_name_is_told(tmp_path: Path) -> None:
    number = signal.SIGRTMIN + 1
    program = CommandProgram(["sh", "-c", f"kill -{number:d} $$"], os.environ, tmp_path / "output")
    await program.start()
    assert program._process is not None
    await program._process.wait()
    assert program.end == f"it was ended by signal {number:d}"


async def test_file_that_is_no_program_is_a_usage_error(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    with pytest.raises(UsageError, match="Exec format error; begin a script with its interpreter"):
        await CommandProgram([str(script)], os.environ, tmp_path / "output").start()


async def test_users_command_that_is_asked_in_the_background_complains_to_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert await output_of("echo pod; echo away >&2", os.environ, 60, quiet=True) == "pod\n"
    assert capfd.readouterr().err == ""
    assert await output_of("echo pod; echo away >&2", os.environ, 60) == "pod\n"
    assert capfd.readouterr().err == "away\n"


async def test_users_command_that_ends_does_not_hide_the_end_of_its_task() -> None:
    """A task that is cancelled in the moment of a result used to go on."""

    async def ask() -> None:
        while True:
            await output_of("true", os.environ, 60, quiet=True)

    async with asyncio.timeout(60):
        for number in range(400):
            tasks = Tasks()
            tasks.start(ask(), "asks")
            await asyncio.sleep(number % 40 / 10_000)
            await tasks.close()
