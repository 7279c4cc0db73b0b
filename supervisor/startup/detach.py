"""`up --detach`: the plane goes on in a session of its own; the caller learns how the start went through a pipe."""

import os
import sys

from supervisor.options.plane import PlaneOptions, layout_of
from supervisor.report.console import FAILED, READY, WAITING
from supervisor.root import logs

LOST = "the supervisor ended while it was starting; see logs/supervisor.log below the root"


def split(options: PlaneOptions) -> tuple[int, int]:
    """Fork. In the caller: (read end, -1). In the plane: (-1, write end), detached from terminal and session."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    if os.fork() > 0:
        os.close(writing)
        return reading, -1
    os.close(reading)
    os.setsid()
    log = os.open(
        logs.path_of(layout_of(options).logs, "supervisor"),
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
        0o600,
    )
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    return -1, writing


def wait(reading: int) -> int:
    """Wait for the plane's word and pass it on; returns the exit code."""
    with os.fdopen(reading, "rb") as pipe:
        while (word := pipe.readline()).startswith(WAITING):
            print(f"nodeplane: {word.removeprefix(WAITING).decode().rstrip()}", file=sys.stderr, flush=True)
        word += pipe.read()
    if word.startswith(READY):
        print(word.removeprefix(READY).decode())
        return 0
    print(f"nodeplane: {word.removeprefix(FAILED).decode() or LOST}", file=sys.stderr)
    return 1
