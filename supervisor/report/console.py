"""Report the start and the state of a plane: on the terminal, to the caller of `up --detach` by a pipe, and to systemd.

A full disk or a reader that is gone loses the line: output never stops the plane.
"""

import os
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from protocols.messages.supervisor import PlaneStatus
from supervisor.base.options import PlaneOptions, layout_of
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

    @property
    def foreground(self) -> bool:
        return self._report_to < 0

    def say(self, line: str) -> None:
        stamp = "" if self.foreground else time.strftime("%Y-%m-%dT%H:%M:%S ")
        _show(f"{stamp}{self._name}: {line}")

    def ready(self, text: str) -> None:
        if self.foreground:
            with suppress(OSError):
                print(text, flush=True)
        else:
            self._report(READY + text.encode())

    def waiting(self, line: str) -> None:
        if self.foreground:
            _show(f"nodeplane: {line}")
        elif self._report_to > 0:
            with suppress(OSError):
                os.write(self._report_to, WAITING + line.replace("\n", " ").encode() + b"\n")

    def failed(self, reason: str) -> None:
        if self.foreground:
            _show(f"nodeplane: {reason}")
        else:
            self.say(reason)
            self._report(FAILED + reason.encode())

    def watch(self, log_dir: Path, instances: Iterable[str]) -> None:
        """Show warnings and errors that these actors log from now on, in the foreground."""
        for name in instances:
            path = logs.path_of(log_dir, name)
            self._tails.setdefault(name, logs.Tail(path, logs.size(path)))

    def show_new(self) -> None:
        if not self.foreground:
            return
        for name, tail in self._tails.items():
            loud = [line for line in tail.lines() if logs.is_warning(line)]
            for line in loud[:MAX_WARNINGS]:
                _show(f"{name}: {line}")
            if len(loud) > MAX_WARNINGS:
                _show(f"{name}: {len(loud) - MAX_WARNINGS} more such lines in its log")

    def _report(self, text: bytes) -> None:
        if self._report_to > 0:
            try:
                os.write(self._report_to, text)
                os.close(self._report_to)
            except OSError:
                pass  # the caller of --detach is gone; the plane keeps running
        self._report_to = 0


def _show(line: str) -> None:
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def summary(status: PlaneStatus, seconds: float) -> str:
    """Return the table that `up` prints once; failures come first."""
    width = max(len(actor.instance) for actor in status.actors)
    rows = [f"  {actor.instance:<{width}}  {actor.pid:>7}  {actor.state}" for actor in status.actors]
    down = [f"{actor.instance} failed: {actor.last_reason}" for actor in status.actors if actor.state == "failed"]
    where = [f"  {name:<11} {value}" for name, value in status.endpoints.items()]
    word = "started without them" if down else "ready"
    head = f"{status.supervisor} (pid {status.pid}) {word} in {seconds:.2f} s"
    return "\n".join([*down, head, f"  {'ACTOR':<{width}}  {'PID':>7}  STATE", *rows, *where])


def still_waiting(status: PlaneStatus) -> str:
    """Return the actors that a start waits for, with their notes; "" if there are none."""
    slow = [actor for actor in status.actors if actor.state == "starting"]
    notes = [f"{actor.instance}: {actor.beat.note}" for actor in slow if actor.beat and actor.beat.note]
    return f"still waiting; {'; '.join(notes) or ', '.join(actor.instance for actor in slow)}" if slow else ""


class Notifier:
    """systemd's readiness and watchdog protocol; does nothing without NOTIFY_SOCKET."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = _watchdog(environment)

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={status}")

    def alive(self) -> None:
        """Feed the watchdog. Call it only on real progress, so that a hung supervisor is restarted."""
        if self.watchdog_s:
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                sock.sendto(text.encode(), self._address)
        except OSError:
            return  # systemd is busy: its timeout acts


def _watchdog(environment: Mapping[str, str]) -> float:
    meant_for = environment.get("WATCHDOG_PID", "")
    if meant_for not in ("", str(os.getpid())):
        return 0.0
    try:
        return int(environment.get("WATCHDOG_USEC", "0")) / 1e6
    except ValueError:
        return 0.0


ENDED_EARLY = "the supervisor ended while it was starting; see logs/supervisor.log below the root"


def detach_plane(options: PlaneOptions) -> tuple[int, int]:
    """Fork; return (read end, -1) in the caller, and (-1, write end) in the plane, which has a session of its own."""
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


def wait_until_started(reading: int) -> int:
    """Print the progress and result of the start; return the exit code."""
    with working("starting the plane"), os.fdopen(reading, "rb") as pipe:
        while (word := pipe.readline()).startswith(WAITING):
            print(f"nodeplane: {word.removeprefix(WAITING).decode().rstrip()}", file=sys.stderr, flush=True)
        word += pipe.read()
    if word.startswith(READY):
        print(word.removeprefix(READY).decode())
        return 0
    print(f"nodeplane: {word.removeprefix(FAILED).decode() or ENDED_EARLY}", file=sys.stderr)
    return 1
