"""The process of an actor between fork() and its main(): detach from the forkserver, log file, signals."""

import faulthandler
import gc
import importlib
import os
import resource
import signal
import sys
import traceback
from typing import NoReturn

from protocols.process import linux
from supervisor.forkserver import wire


def die_with_parent(parent: int) -> None:
    """Get SIGKILL when `parent` dies; exit if it is dead already."""
    linux.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl()
        os._exit(1)


CRASHED = 70


def run(order: wire.Fork, parent: int, inherited: tuple[int, ...]) -> NoReturn:
    """Detach from the forkserver and run the actor. Never returns."""
    code = CRASHED
    try:
        die_with_parent(parent)
        _detach(order, inherited)
        _reset_signals()
        gc.enable()
        faulthandler.enable()
        code = _main(order)
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
        os._exit(code)


def write_to(path: str) -> None:
    """Read nothing and write to this file from now on."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(null)


def _detach(order: wire.Fork, inherited: tuple[int, ...]) -> None:
    os.setsid()
    os.umask(0o077)
    for descriptor in inherited:
        os.close(descriptor)
    write_to(order.log)
    linux.set_name(f"np-{order.instance}")
    # SIGABRT makes a hung actor dump its stack into the log; core files would fill the disk
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _reset_signals() -> None:
    writing = signal.set_wakeup_fd(-1)
    if writing >= 0:
        os.close(writing)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _main(order: wire.Fork) -> int:
    try:
        importlib.import_module(order.module).main(list(order.argv))
    except SystemExit as end:
        return _exit_code(end)
    return 0


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def flush() -> None:
    """Write out what is buffered: a forked process would write it again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
