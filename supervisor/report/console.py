"""What a running supervisor shows: to the person in front of it, or to the caller of `up --detach` through a pipe.

A full disk or a reader that went away costs the line, never more: what is said must not stop what is done.
"""

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from protocols.messages.supervisor import PlaneStatus
from supervisor.root import logs

AT_ONCE = 5
"""Warnings shown of one actor in one look: a flood belongs in the log."""
READY, FAILED = b"ready\n", b"failed\n"
WAITING = b"waiting "
"""Begins any number of lines before one of these two."""


class Console:
    """`report_to`: write end of a pipe whose reader waits for READY or FAILED and the text that follows, or -1."""

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
        """Said once."""
        if self.foreground:
            with suppress(OSError):
                print(text, flush=True)
        else:
            self._report(READY + text.encode())

    def waiting(self, line: str) -> None:
        """Why it takes long."""
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
        """Show warnings and errors these actors log from now on (foreground only)."""
        for name in instances:
            path = logs.path_of(log_dir, name)
            self._tails.setdefault(name, logs.Tail(path, logs.size(path)))

    def show_new(self) -> None:
        if not self.foreground:
            return
        for name, tail in self._tails.items():
            loud = [line for line in tail.lines() if logs.loud(line)]
            for line in loud[:AT_ONCE]:
                _show(f"{name}: {line}")
            if len(loud) > AT_ONCE:
                _show(f"{name}: {len(loud) - AT_ONCE} more such lines in its log")

    def _report(self, text: bytes) -> None:
        if self._report_to > 0:
            try:
                os.write(self._report_to, text)
                os.close(self._report_to)
            except OSError:
                pass  # the caller of --detach went away; the plane goes on
        self._report_to = 0


def _show(line: str) -> None:
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def summary(status: PlaneStatus, seconds: float) -> str:
    """The table `up` prints once; what failed comes first."""
    width = max(len(actor.instance) for actor in status.actors)
    rows = [f"  {actor.instance:<{width}}  {actor.pid:>7}  {actor.state}" for actor in status.actors]
    down = [f"{actor.instance} failed: {actor.last_reason}" for actor in status.actors if actor.state == "failed"]
    where = [f"  {name:<11} {value}" for name, value in status.endpoints.items()]
    word = "started without them" if down else "ready"
    head = f"{status.supervisor} (pid {status.pid}) {word} in {seconds:.2f} s"
    return "\n".join([*down, head, f"  {'ACTOR':<{width}}  {'PID':>7}  STATE", *rows, *where])


def still_waiting(status: PlaneStatus) -> str:
    """For whom, and what they say; "" when everybody serves."""
    slow = [actor for actor in status.actors if actor.state == "starting"]
    told = [f"{actor.instance}: {actor.beat.note}" for actor in slow if actor.beat and actor.beat.note]
    return f"still waiting; {'; '.join(told) or ', '.join(actor.instance for actor in slow)}" if slow else ""
