"""The judged command: how it ends."""

import os
import signal
from pathlib import Path

from supervisor.conform.program import CommandProgram


async def test_end_by_a_signal_without_a_name_is_told(tmp_path: Path) -> None:
    number = signal.SIGRTMIN + 1
    program = CommandProgram(["sh", "-c", f"kill -{number:d} $$"], os.environ, tmp_path / "output")
    await program.start()
    assert program._process is not None
    await program._process.wait()
    assert program.end == f"it was ended by signal {number:d}"
