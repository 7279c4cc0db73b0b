"""Report the start and state of a plane: on the terminal, in the journal, to the caller of `up --detach` by a pipe.

A full disk or a reader that is gone loses the line: output never stops the plane.
"""

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from protocols.messages.supervisor import ROOT_NAME, PlaneStatus
from protocols.process.texts import printable
from supervisor.base import journal
from supervisor.base.options import PlaneOptions, default_root, layout_of
from supervisor.base.terminal import working
from supervisor.root import logs

MAX_WARNINGS = 5
"""Warnings of one actor shown in a second; more are counted."""
READY, FAILED = b"ready\n", b"failed\n"
WAITING = b"waiting "
"""Prefix of progress lines before READY or FAILED."""


class Console:
    """Output of a supervisor. `report_to` is the pipe to the caller of --detach, or -1 in the foreground."""

    def __init__(self, name: str, report_to: int = -1) -> None:
        self._name = name
        self._report_to = report_to
        self._tails: dict[str, logs.Tail] = {}
        self._journal = journal.is_journal(journal.STDERR)

    @property
    def foreground(self) -> bool:
        return self._report_to < 0

    def say(self, line: str) -> None:
        stamp = "" if self.foreground else time.strftime("%Y-%m-%dT%H:%M:%S ")
        self._show(f"{stamp}{self._name}: {line}", journal.NOTICE)

    def ready(self, text: str) -> None:
        if self.foreground and self._journal:
            for line in text.splitlines():
                self._show(line, journal.INFO)
        elif self.foreground:
            with suppress(OSError):
                print(text, flush=True)
        else:
            self._report(READY + text.encode())

    def waiting(self, line: str) -> None:
        if self.foreground:
            self._show(f"nodeplane: {line}", journal.WARNING)
        elif self._report_to > 0:
            with suppress(OSError):
                os.write(self._report_to, WAITING + line.replace("\n", " ").encode() + b"\n")

    def failed(self, reason: str) -> None:
        if self.foreground:
            self._show(f"nodeplane: {reason}", journal.ERROR)
        else:
            self.say(reason)
            self._report(FAILED + reason.encode())

    def watch(self, log_dir: Path, instances: Iterable[str]) -> None:
        """Show warnings and errors that these actors log from now on, in the foreground."""
        for name in instances:
            if name not in self._tails:
                path = logs.path_of(log_dir, name)
                self._tails[name] = logs.Tail(path, logs.size(path))

    def show_new(self, log_dir: Path, instances: Iterable[str]) -> None:
        """Show what was added since, and watch these actors too, some of which were started since."""
        if not self.foreground:
            return
        self.watch(log_dir, instances)
        for name, tail in self._tails.items():
            loud = [line for line in tail.lines() if logs.is_warning(line)]
            for line in loud[:MAX_WARNINGS]:
                self._show(f"{name}: {line}", journal.level_of(line))
            if len(loud) > MAX_WARNINGS:
                self._show(f"{name}: {len(loud) - MAX_WARNINGS} more such lines in its log", journal.WARNING)

    def _show(self, text: str, level: int) -> None:
        text = printable(text)
        with suppress(OSError):
            print(journal.for_journal(text, level) if self._journal else text, file=sys.stderr, flush=True)

    def _report(self, text: bytes) -> None:
        if self._report_to > 0:
            try:
                os.write(self._report_to, text)
                os.close(self._report_to)
            except OSError:
                pass  # the caller of --detach is gone; the plane keeps running
        self._report_to = 0


def summary(status: PlaneStatus, seconds: float) -> str:
    """Return the table that `up` prints once: failures come first, the next step for the user last."""
    width = max(len(actor.instance) for actor in status.actors)
    rows = [f"  {actor.instance:<{width}}  {actor.pid:>7}  {actor.state}" for actor in status.actors]
    down = [
        f"{actor.instance} failed: {printable(actor.last_reason)}" for actor in status.actors if actor.state == "failed"
    ]
    where = [f"  {name:<11} {value}" for name, value in status.endpoints.items()]
    word = "started without them" if down else "ready"
    head = f"{status.supervisor} (pid {status.pid}) {word} in {seconds:.2f} s"
    next_step = [] if down else _next_step(status)
    return "\n".join([*down, head, f"  {'ACTOR':<{width}}  {'PID':>7}  STATE", *rows, *where, *next_step])


def _next_step(status: PlaneStatus) -> list[str]:
    """Return the line to paste before kubectl and the one to look inside.

    There are none for a group, an adopted kubelet or a joined node.
    """
    kubeconfig = status.endpoints.get("kubeconfig", "")
    if status.supervisor != ROOT_NAME or not os.path.exists(kubeconfig):
        return []
    root = Path(kubeconfig).parent
    given = "" if root == Path(default_root()) else f" --root {shlex.quote(str(root))}"
    return [f"export KUBECONFIG={shlex.quote(kubeconfig)}", f"nodeplane console{given}"]


def still_waiting(status: PlaneStatus) -> str:
    """Return the actors that a start waits for, with their notes; "" if there are none."""
    slow = [actor for actor in status.actors if actor.state == "starting"]
    notes = [f"{actor.instance}: {printable(actor.beat.note)}" for actor in slow if actor.beat and actor.beat.note]
    return f"still waiting; {'; '.join(notes) or ', '.join(actor.instance for actor in slow)}" if slow else ""


ENDED_EARLY = "the supervisor ended while it was starting; see logs/supervisor.log below the root"


def detach_plane(options: PlaneOptions) -> tuple[int, int]:
    """Fork. Return (pid of the plane, read end) in the caller and (0, write end) in the plane.

    The plane leads a new session, and keeps neither the caller's directory nor its open files.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    if (plane := os.fork()) > 0:
        os.close(writing)
        return plane, reading
    os.close(reading)
    os.setsid()
    where = layout_of(options)
    _work_in(where.root)
    log = os.open(logs.path_of(where.logs, "supervisor"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    _close_inherited()
    return 0, writing


def _work_in(root: Path) -> None:
    """Change the directory; relative paths of Python's modules remain those of the caller's."""
    if modules := os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, modules.split(os.pathsep)))
    os.chdir(root)


def _close_inherited() -> None:
    """Close what the caller has opened, such as the lock of flock; files of our own are closed on exec."""
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the listing's own
            if number > 2 and os.get_inheritable(number):
                os.close(number)


def wait_until_started(reading: int, plane: int) -> int:
    """Print the progress and result of the start; return the exit code. Ctrl-C ends the plane, whose pid is given."""
    try:
        word = _result(reading)
    except KeyboardInterrupt:
        os.kill(plane, signal.SIGTERM)
        os.waitpid(plane, 0)
        raise
    if word.startswith(READY):
        print(word.removeprefix(READY).decode())
        return 0
    print(f"nodeplane: {word.removeprefix(FAILED).decode() or ENDED_EARLY}", file=sys.stderr)
    return 1


def _result(reading: int) -> bytes:
    with working("starting the plane"), os.fdopen(reading, "rb") as pipe:
        while (word := pipe.readline()).startswith(WAITING):
            print(f"nodeplane: {word.removeprefix(WAITING).decode().rstrip()}", file=sys.stderr, flush=True)
        return word + pipe.read()
