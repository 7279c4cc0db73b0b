"""Run functions in forked processes, some at a time, each with a bound of its CPU time, wall time and memory.

A run of the simulation patches clocks and modules of its process, so each one has a process of its own; the parent
imports once. The parent has no threads, so that a fork is safe.
"""

import contextlib
import ctypes
import faulthandler
import gc
import math
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")
MEMORY = 4 << 30
"""Bytes of data of one process."""
MAX_ANSWER = 64 << 20
GRACE_S = 5.0
"""Seconds between a deadline, when the process prints its stack, and SIGKILL."""
OVERDUE = "does not end: its time is over"
OVERDUE_SIGNALS = signal.SIGALRM, signal.SIGXCPU
PR_SET_PDEATHSIG = 1


class Deadline(Struct, frozen=True):
    """Seconds for one process. The bound of CPU time holds on a busy machine, too; the other is for what waits."""

    cpu: float
    wall: float


class Ended(Struct, frozen=True):
    """How a process ended: with an answer, or with a fault, which is then the last lines of its stack."""

    answer: bytes = b""
    fault: str = ""
    cpu_s: float = 0.0


class _Child(Generic[T]):
    def __init__(self, job: T, pid: int, pipe: int, deadline: float) -> None:
        self.job, self.pid, self.pipe, self.deadline = job, pid, pipe, deadline
        self.received = bytearray()
        self.killed = False

    def kill(self) -> None:
        self.killed = True
        os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> tuple[int, float]:
        """Return its exit code and CPU time."""
        os.close(self.pipe)
        _, status, usage = os.wait4(self.pid, 0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def forked(
    jobs: Iterable[T], work: Callable[[T], bytes], *, at_a_time: int, deadline: Deadline
) -> Generator[tuple[T, Ended], None, None]:
    """Yield each job with the end of its process, in the order of their ends.

    Jobs are taken from the iterable when a process may start. Closing the generator kills those that run.
    """
    waiting = iter(jobs)
    running: dict[int, _Child[T]] = {}
    gc.collect()
    gc.freeze()  # collections in a child copy no page of the parent's objects
    try:
        with selectors.DefaultSelector() as selector:
            while True:
                for job in _some(waiting, at_a_time - len(running)):
                    child = _start(job, work, deadline)
                    running[child.pipe] = child
                    selector.register(child.pipe, selectors.EVENT_READ)
                if not running:
                    return
                for child in _finished(selector, running):
                    selector.unregister(child.pipe)
                    del running[child.pipe]
                    yield child.job, _end(child)
    finally:
        for child in running.values():
            child.kill()
            child.reap()


def _some(waiting: Iterator[T], count: int) -> Iterator[T]:
    for _ in range(count):
        try:
            yield next(waiting)
        except StopIteration:
            return


def _finished(selector: selectors.BaseSelector, running: dict[int, _Child[T]]) -> list[_Child[T]]:
    """Wait for pipes that close, and kill whoever is overdue."""
    due = min(child.deadline for child in running.values())
    done = []
    for key, _ in selector.select(max(0.0, min(due - time.monotonic(), 3600.0))):
        child = running[key.fd]
        data = os.read(key.fd, 1 << 16)
        child.received += data
        if not data:
            done.append(child)
        elif len(child.received) > MAX_ANSWER:
            child.kill()
    for child in running.values():
        if time.monotonic() >= child.deadline and not child.killed:
            child.kill()
            child.deadline = float("inf")
    return done


def _end(child: _Child[T]) -> Ended:
    code, cpu_s = child.reap()
    data = bytes(child.received)
    if code == 0 and not child.killed:
        return Ended(answer=data, cpu_s=cpu_s)
    text = data.decode(errors="replace").strip()
    if child.killed or -code in OVERDUE_SIGNALS:
        reason = OVERDUE
    elif code < 0:
        reason = f"ended by {signal.Signals(-code).name}"
    else:
        reason = ""
    return Ended(fault="\n".join(part for part in (reason, text) if part) or f"ended with exit code {code}")


def _start(job: T, work: Callable[[T], bytes], deadline: Deadline) -> _Child[T]:
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(job, work, writer, parent, deadline)
    os.close(writer)
    return _Child(job, pid, reader, time.monotonic() + deadline.wall + GRACE_S)


def _child(job: T, work: Callable[[T], bytes], writer: int, parent: int, deadline: Deadline) -> None:
    """Write the answer, or the stack of an exception or of an overdue run; never return."""
    code = 1
    try:
        _end_with(parent)
        _limit(writer, deadline)
        answer = work(job)
        _write(writer, answer)
        code = 0
    except BaseException:
        _write(writer, traceback.format_exc().encode()[-20_000:])
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _limit(writer: int, deadline: Deadline) -> None:
    """Have the stack written where the process is overdue or dies."""
    cpu = math.ceil(deadline.cpu)
    faulthandler.enable(writer)
    for number in OVERDUE_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
        faulthandler.register(number, file=writer, chain=True)
    signal.setitimer(signal.ITIMER_REAL, deadline.wall)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + math.ceil(GRACE_S)))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _write(writer: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(writer, view) :]


def _end_with(parent: int) -> None:
    """End this process when its parent ends, also by SIGKILL."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
