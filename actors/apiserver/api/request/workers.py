"""Worker threads for work that would block the event loop: long bodies, large objects, costly patterns and rules.

Short work runs in the loop with a small budget. Work that exceeds it, or is long from the start, runs in a thread with
the budget of the request. Work in a thread must own everything it changes. Each user has one thread at a time and a
bounded queue, so that long requests delay only those of the same user while another thread is free.
"""

import asyncio
import contextvars
import gc
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from actors.apiserver.api.errors import TooManyRequests
from protocols.cel.worker.client import settled
from protocols.kinds.check.budget import Budget, BudgetSpent, within

THREADS = 2
LONG = 16 * 1024
"""Bytes of bodies and objects above which work leaves the loop: a write costs some 10 us for each value in them."""
LOOP_UNITS = 10_000
"""Budget of work in the loop, in units of about a microsecond."""
SECONDS = 30.0
"""Deadline of one piece of work, including its time in the queue."""
QUEUED_PER_USER, QUEUED = 16, 128
"""Bounds of the work that waits for a thread."""
SWITCH_SECONDS = 0.001
"""Time the loop waits for a computing thread to release the interpreter; Python's default is 5 ms."""
GARBAGE = (20_000, 10, 10)
"""Thresholds of the garbage collector. Python's defaults traverse a body of a million values many times while it is
decoded, a tenth of a second each time."""
FOREVER = 1e9
T = TypeVar("T")
user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="")
"""The user of the current request."""


def prepare_process() -> None:
    """Set interpreter options so that the loop and the worker threads alternate in short turns."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*GARBAGE)


class _Job:
    """A piece of work that waits for a thread or runs in one. `done` is None once the caller has left."""

    __slots__ = ("_budget", "_context", "_work", "done", "user")

    def __init__(self, owner: str, work: Callable[[], Any]) -> None:
        self.user = owner
        self.done: asyncio.Future[Any] | None = asyncio.get_running_loop().create_future()
        self._budget, self._context, self._work = Budget(SECONDS), contextvars.copy_context(), work

    def run(self) -> Any:
        """Do the work, in a thread. Raises what it raises, and DeadlinePassed if it waited too long."""
        return self._context.run(self._counted)

    def _counted(self) -> Any:
        self._budget.spend(0)
        with within(self._budget):
            return self._work()


class Workers:
    """The worker threads of one event loop."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="worker")
        self._free = threads
        self._busy: set[str] = set()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        """Waiting work by user; the user with the longest time since the last turn comes first."""
        self._queued = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, called in a thread.

        Raises what it raises, BudgetSpent, DeadlinePassed, and TooManyRequests when too much waits already.
        """
        name = user.get()
        waiting = self._waiting.get(name)
        if self._queued >= QUEUED or (waiting is not None and len(waiting) >= QUEUED_PER_USER):
            raise TooManyRequests("too many large requests wait for their turn, please try again later", retry_after=1)
        job = _Job(name, work)
        assert job.done is not None
        self._waiting.setdefault(name, deque()).append(job)
        self._queued += 1
        self._begin()
        try:
            result: T = await job.done
            return result
        finally:
            job.done = None  # breaks the cycle of error, frame and future, which would keep the body alive

    def _begin(self) -> None:
        """Start waiting work while threads are free, one piece of each user in turn."""
        while self._free:
            name = next((name for name in self._waiting if name not in self._busy), None)
            if name is None:
                return
            waiting = self._waiting.pop(name)
            job = waiting.popleft()
            if waiting:
                self._waiting[name] = waiting
            self._queued -= 1
            if job.done is None or job.done.cancelled():
                continue
            self._free -= 1
            self._busy.add(name)
            loop = asyncio.get_running_loop()
            self._pool.submit(job.run).add_done_callback(partial(_call, loop, self._ended, job))

    def _ended(self, job: _Job, ran: "Future[Any]") -> None:
        done, error = job.done, ran.exception()
        if done is not None and not done.done():
            if error is None:
                done.set_result(ran.result())
            else:
                done.set_exception(error)
        del done, error
        self._free += 1
        self._busy.discard(job.user)
        self._begin()


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed: no caller waits
        loop.call_soon_threadsafe(function, *arguments)


_of: tuple[asyncio.AbstractEventLoop, Workers] | None = None


def workers() -> Workers:
    """Return the workers of the running event loop. A process has only one loop; tests have several."""
    global _of
    loop = asyncio.get_running_loop()
    if _of is None or _of[0] is not loop:
        _of = loop, Workers()
    return _of[1]


async def offload(size: int, work: Callable[[], T]) -> T:
    """Return the result of `work` on `size` bytes: computed in the loop if it is short, else in a thread.

    `work` may be called several times: again in a thread, and again with answers about expressions that it asked for.
    Raises the errors of Workers.run, and WorkerAway.
    """
    return await settled(partial(_worked, size, work), user.get())


async def _worked(size: int, work: Callable[[], T]) -> T:
    if size <= LONG:
        try:
            with within(Budget(FOREVER, LOOP_UNITS)):
                return work()
        except BudgetSpent:
            pass
    return await workers().run(work)
