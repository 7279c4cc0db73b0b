"""Run work on evaluators, replace those that die, and blame the expression that they died of.

Owners have their turns, with one piece of work of each at a time. Two evaluators are ready, so that the end of one is a
handover; another one is forked while both are busy for long, so that nobody waits for the expressions of others.
"""

import asyncio
import logging
import os
import signal
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

import msgspec

from protocols.bounded import BoundedMap
from protocols.bus import ResourceExhausted
from protocols.cel.worker.evaluator import ANSWER, HEAD, OUT_OF_MEMORY, Evaluator, key_of
from protocols.cel.worker.messages import Answers, Batch, Work, WorkerFault, encode
from protocols.cel.worker.sandbox import CPU_S, MEMORY, WALL_S
from protocols.errors import NodeplaneError
from protocols.process.proc import cpu_s, stat_fields

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
FORGIVEN_S = 600.0
"""Time without another end after which an expression is treated as new."""
QUARANTINED = 1024
Key = tuple[str, str]
"""Owner and expression: what one user's data does to an expression is no matter of others."""


W = TypeVar("W")
QUEUED, QUEUED_PER_OWNER = 1024, 256
READY, MOST = 2, 3
"""Evaluators without work, and at once."""
LONG_S = 0.02
"""Time of busy evaluators after which waiting work gets another one."""
SPARE_S = 30.0
"""Time for which an evaluator beyond those stays without work."""
GRACE_S = 0.5
"""Time for the kernel's own limit to end an evaluator before the actor does."""
WORKED_S = 0.25
"""CPU time of a question that took long below which the machine is to blame, not the expression."""
PART = 64 * 1024
"""Bytes of an answer that are read at once."""
DEATHS = 3
"""Evaluators that one piece of work may end; what is left of it fails. Those that others end do not count."""
FROM_OUTSIDE = ("killed", "stopped")
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP}


class _QuarantinedExpression(msgspec.Struct):
    reason: str
    pause: float
    until: float


class Quarantine:
    """Expressions by owner, QUARANTINED at most; pauses double while an expression goes on doing harm."""

    def __init__(self) -> None:
        self._entries = BoundedMap[Key, _QuarantinedExpression](QUARANTINED)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, owner: str, expression: str, reason: str, now: float) -> _QuarantinedExpression:
        key = owner, expression
        before = self._entries.pop(key, None)
        again = before is not None and now < before.until + FORGIVEN_S
        pause = min(LONGEST_PAUSE_S, 2 * before.pause) if before is not None and again else FIRST_PAUSE_S
        entry = self._entries[key] = _QuarantinedExpression(reason, pause, now + pause)
        return entry

    def banned(self, owner: str, now: float) -> dict[str, tuple[str, float]]:
        """Return the expressions of an owner that wait, each with the error and the seconds that are left."""
        return {
            expression: (_text(entry), entry.until - now)
            for (whose, expression), entry in self._entries.items()
            if whose == owner and now < entry.until
        }


def _text(entry: _QuarantinedExpression) -> str:
    return f"the expression was ended because it {entry.reason}; it is not evaluated again for {entry.pause:.0f} s"


class Turns(Generic[W]):
    """Queued work, bounded for all owners and for each."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[W]] = OrderedDict()
        self._busy: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, owner: str, work: W) -> bool:
        """Queue work; return False when too much of it waits already."""
        waiting = self._waiting.get(owner)
        if self._count >= QUEUED or (waiting is not None and len(waiting) >= QUEUED_PER_OWNER):
            return False
        self._waiting.setdefault(owner, deque()).append(work)
        self._count += 1
        return True

    def next(self) -> tuple[str, W] | None:
        """Return the next work, whose owner is then busy until `done`."""
        owner = next((client for client in self._waiting if client not in self._busy), None)
        if owner is None:
            return None
        waiting = self._waiting.pop(owner)
        work = waiting.popleft()
        if waiting:
            self._waiting[owner] = waiting
        self._count -= 1
        self._busy.add(owner)
        return owner, work

    def done(self, owner: str) -> None:
        self._busy.discard(owner)


class Death(NamedTuple):
    """`kind` is the label of the metric; `blamed` is the expression, empty if it was none's fault."""

    kind: str
    reason: str
    blamed: str


class EvaluatorDied(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised inside this module when an evaluator ended before its answer."""


class Running:
    """One evaluator and the stream of its answers."""

    def __init__(self) -> None:
        """Fork. Raises OSError."""
        self.evaluator = Evaluator()
        self.idle_since = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._read = bytearray()
        self.ended = self.flooded = False
        self._more: asyncio.Future[None] | None = None
        self._loop.add_reader(self.evaluator.socket, self._readable)

    async def send(self, batch: Batch) -> None:
        """Raises EvaluatorDied."""
        body, sent = encode(batch), 0
        raw = HEAD.pack(len(body)) + body
        try:
            with suppress(BlockingIOError):
                sent = self.evaluator.socket.send(raw)
            if sent < len(raw):
                async with asyncio.timeout(WALL_S + GRACE_S):
                    await self._loop.sock_sendall(self.evaluator.socket, memoryview(raw)[sent:])
        except OSError:
            raise EvaluatorDied("the evaluator ended") from None

    async def answer(self) -> bytes:
        """Raises EvaluatorDied."""
        try:
            async with asyncio.timeout(WALL_S + GRACE_S):
                while self.flooded or (raw := self._whole()) is None:
                    if self.ended:
                        raise EvaluatorDied("the evaluator ended")
                    self._more = self._loop.create_future()
                    await self._more
        except TimeoutError:
            raise EvaluatorDied("the evaluator is stopped") from None
        return raw

    def _whole(self) -> bytes | None:
        """Return the next answer if all of it was read."""
        read = self._read
        if len(read) < HEAD.size or len(read) < (end := HEAD.size + HEAD.unpack_from(read)[0]):
            return None
        answer = bytes(read[HEAD.size : end])
        del read[:end]
        return answer

    def _readable(self) -> None:
        try:
            part = self.evaluator.socket.recv(PART)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        self._read += part
        self.flooded = len(self._read) > HEAD.size + ANSWER
        if not part or self.flooded:
            self.ended = True
            self._loop.remove_reader(self.evaluator.socket)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def end(self) -> Death:
        """Kill it if it lives, reap it, and return how and why it ended."""
        pid, expression, status = self.evaluator.pid, self.evaluator.expression, 0
        fields = stat_fields(pid)
        used_s = cpu_s(fields) - self.evaluator.began_cpu_s if fields else 0.0
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)  # no other process: it is ours until we have reaped it
            _, status = os.waitpid(pid, 0)
        self._loop.remove_reader(self.evaluator.socket)
        self.evaluator.close()
        return _judged(status, "stopped" if fields[:1] in ([b"T"], [b"t"]) else "", used_s, expression)


def _judged(status: int, state: str, used_s: float, expression: str) -> Death:
    """Return whose fault it was: signals from outside, a stopped process and a slow machine are no expression's.

    A crash without an expression in work is a signal from outside as well.
    """
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number in (signal.SIGPROF, signal.SIGXCPU):
        return Death("cpu", f"used {CPU_S:g} s of CPU time", expression)
    if number in CRASHES and expression:
        return Death("crash", f"crashed the engine ({signal.Signals(number).name})", expression)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == OUT_OF_MEMORY:
        return Death("memory", f"needed {MEMORY >> 20} MB of memory", expression)
    if number == signal.SIGALRM and used_s >= WORKED_S:
        return Death("time", f"took {WALL_S:g} s", expression)
    return Death(state or ("time" if number == signal.SIGALRM else "killed"), "", "")


class Evaluators:
    """`run` answers work; the owner of this object cancels it at the caller's deadline."""

    def __init__(self, log: logging.Logger, died: Callable[[Death], None]) -> None:
        self._log, self._died = log, died
        self._idle: list[Running] = []
        self._all: set[Running] = set()
        self._turns: Turns[asyncio.Future[Running]] = Turns()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.quarantine = Quarantine()

    def start(self) -> None:
        for _ in range(READY):
            self._idle.append(self._forked())

    def close(self) -> None:
        self._closed = True
        for running in self._all:
            running.end()
        self._all.clear()

    @property
    def pids(self) -> list[int]:
        return [running.evaluator.pid for running in self._all]

    @property
    def next_pid(self) -> int:
        """The evaluator that the next work gets."""
        return self._idle[-1].evaluator.pid

    async def run(self, work: Work) -> Answers:
        """Answer all questions of the work. Raises ResourceExhausted."""
        turn: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        if not self._turns.add(work.owner, turn):
            raise ResourceExhausted("too many expressions wait for their evaluation")
        self._dispatch()
        running: Running | None = None
        try:
            running = await turn
            answers, running = await self._answered(running, work)
            return Answers(tuple(answers))
        finally:
            if turn.done() and not turn.cancelled():  # else its owner may be busy with other work
                running = running or turn.result()
                self._turns.done(work.owner)
            turn.cancel()
            self._release(running)

    async def _answered(self, running: Running, work: Work) -> tuple[list[bytes], Running]:
        """Return the answers and the evaluator that gave the last one."""
        answers: list[bytes] = []
        deaths = 0
        while deaths < DEATHS:
            banned = self.quarantine.banned(work.owner, time.monotonic())
            try:
                await running.send(Batch(work.questions[len(answers) :], banned))
                while len(answers) < len(work.questions):
                    answers.append(await running.answer())
                return answers, running
            except EvaluatorDied:
                deaths += self._buried(running, work.owner)
                asyncio.get_running_loop().call_soon(self.refill)
                running = self._next()
            except BaseException:  # cancelled: answers that nobody waits for are still to come
                self._forget(running)
                raise
        text = "the expression was not evaluated: its evaluation was ended again and again"
        rest = [encode(WorkerFault("ended", text, 1.0))] * (len(work.questions) - len(answers))
        return answers + rest, running

    def _next(self) -> Running:
        """Raises ResourceExhausted."""
        try:
            return self._idle.pop() if self._idle else self._forked()
        except OSError as error:
            raise ResourceExhausted(f"no evaluator can be forked: {error.strerror}") from None

    def _buried(self, running: Running, owner: str) -> bool:
        """Return True if the work may be to blame."""
        self._all.discard(running)
        death = running.end()
        self._died(death)
        if not death.blamed:
            self._log.warning("evaluator replaced reason=%s", death.kind)
            return death.kind not in FROM_OUTSIDE or running.flooded
        blamed = key_of(death.blamed).decode(errors="replace")
        entry = self.quarantine.add(owner, blamed, death.reason, time.monotonic())
        self._log.warning(
            "evaluator replaced reason=%s owner=%s pause=%gs expression=%r",
            death.kind,
            owner,
            entry.pause,
            blamed[:200],
        )
        return True

    def _forget(self, running: Running) -> None:
        self._all.discard(running)
        running.end()

    def _forked(self) -> Running:
        """Raises OSError."""
        running = Running()
        self._all.add(running)
        return running

    def _release(self, running: Running | None) -> None:
        if running is not None and running in self._all:
            running.idle_since = time.monotonic()
            self._idle.append(running)
        self._dispatch()

    def _dispatch(self) -> None:
        """Give idle evaluators to waiting work."""
        while self._idle and (waiter := self._turns.next()) is not None:
            owner, turn = waiter
            if turn.cancelled():
                self._turns.done(owner)
                continue
            turn.set_result(self._idle.pop())
        if len(self._turns) and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LONG_S, self._grow)

    def _grow(self) -> None:
        """Fork another evaluator for work that still waits."""
        self._timer = None
        if len(self._turns) and not self._idle and len(self._all) < MOST:
            self.refill(len(self._all) + 1)
        self._dispatch()

    def refill(self, count: int = READY) -> None:
        """Fork until there are so many. Without memory or pids for it, those that are left do the work."""
        try:
            while len(self._all) < count and not self._closed:
                self._idle.append(self._forked())
        except OSError as error:
            self._log.warning("evaluator cannot be forked error=%s", error)
        self._dispatch()

    def trim(self) -> None:
        """Replace evaluators that ended, and end those without work since SPARE_S beyond the READY ones."""
        now = time.monotonic()
        for running in list(self._idle):
            unused = now - running.idle_since > SPARE_S and len(self._all) > READY
            if running.ended or unused:
                self._idle.remove(running)
                self._forget(running)
        self.refill()
