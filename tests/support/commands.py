"""Run `nodeplane` commands in forked processes: an interpreter of its own imports for 0.3 s of a processor.

Tests that are about the program itself, or that set a variable of Python's, run the program.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.support.actor_process import COMMANDS, MODULES, ActorProcess, forkserver
from tests.support.command_process import Command

INHERITED = dict(os.environ)


def start_command(
    words: Sequence[str], environment: Mapping[str, str], out: Path, err: Path | None = None, program: str = ""
) -> ActorProcess:
    """Start `nodeplane WORDS`, or another program; it writes to the ends of these files, or of the first."""
    err = err or out
    now = os.umask(0)
    os.umask(now)
    names = {*environment, *INHERITED}
    changed = {name: environment.get(name) for name in names if environment.get(name) != INHERITED.get(name)}
    modules = tuple(module for module in MODULES if module != COMMANDS)
    command = Command(tuple(words), changed, str(out), str(err), now, modules, program)
    return forkserver().start("command", COMMANDS, (msgspec.json.encode(command).decode(),), err)


def run_command(
    words: Sequence[str], environment: Mapping[str, str], timeout: float = 60.0
) -> "subprocess.CompletedProcess[str]":
    """Run `nodeplane WORDS` to its end. Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryDirectory(prefix="npcommand") as place:
        out, err = Path(place, "out"), Path(place, "err")
        process = start_command(words, environment, out, err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise
        return subprocess.CompletedProcess(["nodeplane", *words], code, out.read_text(), err.read_text())
