"""The process of a `nodeplane` command, forked from the forkserver of the tests, which has loaded its code.

It is what an interpreter of its own would run, but for `up --detach`: the plane forks its forkserver, as the group of
an additional node does, instead of starting one that imports all actors again.
"""

import importlib
import os
import sys
import time
from typing import NoReturn

import msgspec

import actors.simulator.driver.process
import actors.simulator.plugin.process
import supervisor.pki.issue
import supervisor.plane.supervisor
from protocols.errors import NodeplaneError
from supervisor.base.errors import exit_code, explain, guard
from supervisor.base.groups import SupervisionLimits
from supervisor.base.options import layout_of
from supervisor.cli.commands import parser_of
from supervisor.cli.flags import plane_options
from supervisor.cli.main import main as nodeplane
from supervisor.cli.operate import start
from supervisor.forkserver.client import fork
from supervisor.plane.start import Begin, process_age_s, run_prepared
from supervisor.report.console import Console, wait_until_started
from supervisor.root.logs import path_of
from supervisor.startup.prepare import prepare, supervisor_name

LOADED = (
    actors.simulator.driver.process,
    actors.simulator.plugin.process,
    supervisor.pki.issue,
    supervisor.plane.supervisor,
)
"""What commands import when they run, for all of them once."""


class Command(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    environment: dict[str, str | None]
    """Variables that differ from those of the forkserver; None: not set."""
    out: str
    err: str
    umask: int
    modules: tuple[str, ...]
    """Modules of a plane's forkserver."""
    program: str
    """Module whose `main` gets the words and returns the exit code, in place of `nodeplane`."""


def main(argv: list[str]) -> NoReturn:
    """Run the command that is given as JSON."""
    command = msgspec.json.decode(argv[0], type=Command)
    os.umask(command.umask)
    _write_to(command.out, command.err)
    for name, value in command.environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    words = list(command.words)
    if command.program:
        sys.exit(importlib.import_module(command.program).main(words))
    sys.exit(guard(lambda: _up(command)) if words[:2] == ["up", "--detach"] else nodeplane(words))


def _up(command: Command) -> int:
    """Do what `supervisor.plane.start.start` does, with a forkserver that is forked before anything is opened."""
    options = plane_options(parser_of([start]).parse_args(list(command.words)))
    prepare(options).release()
    started = f"{command.out}.started"
    os.mkfifo(started)
    if (plane := os.fork()) > 0:
        return wait_until_started(os.open(started, os.O_RDONLY), plane)
    os.setsid()
    _write_to(str(path_of(layout_of(options).logs, "supervisor")))
    os.chdir(layout_of(options).root)
    forkserver = fork(command.modules)
    report_to = os.open(started, os.O_WRONLY | os.O_CLOEXEC)
    try:
        begin = Begin(time.monotonic() - process_age_s(), SupervisionLimits(), lambda same: same)
        return run_prepared(prepare(options), begin, report_to, None, forkserver)
    except (NodeplaneError, OSError) as error:
        Console(supervisor_name("", 0), report_to).failed(explain(error))
        return exit_code(error)


def _write_to(out: str, err: str = "") -> None:
    for path, descriptor in ((out, 1), (err or out, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
