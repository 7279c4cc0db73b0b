"""Owners of tasks: whoever starts one declares the policy for its failure.

`asyncio.create_task`, `asyncio.ensure_future` and executors are used here alone.
tests/unit/process/test_tasks.py checks that. The policies:

| policy | how |
|---|---|
| raise | `awaited`: the starter awaits the task and gets its exception; `shared`: all who wait get it |
| report | `Tasks()`, or `failed` where it is caught: a log line and a count; the owner goes on without it |
| retry | `Tasks(on_failure)`, `start(..., on_failure=...)`: the owner records the failure and tries again |
| restart | `restarted`: report, pause longer each time, run again |
| end the process | `Context.spawn`, whose owner calls `Context.fail`; the supervisor starts a new process |

Each failure is counted by kind (`FAILURES`), whatever its policy but raise.
"""

import asyncio
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from protocols.errors import NodeplaneError
from protocols.process.rates import backoff_delay

T = TypeVar("T")
Failed = Callable[[str, BaseException], None]
"""Called with the task's name and its exception."""

FAILURES: Counter[str] = Counter()
"""Failed tasks of this process by kind. Kinds are words of the code, so they are few."""
RESTART_FIRST_S, RESTART_MAX_S = 0.1, 30.0
log = logging.getLogger("tasks")


def report(name: str, error: BaseException) -> None:
    """Log a failed task on one line, with its traceback at debug."""
    log.error("task %s failed: %s", name, one_line(error))
    log.debug("task %s failed", name, exc_info=error)


def failed(kind: str, subject: str, error: BaseException) -> None:
    """Count and report an exception after which the caller goes on by itself."""
    FAILURES[kind] += 1
    report(f"{kind} {subject}".rstrip(), error)


def awaited(work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """Start a task that the caller awaits, at the latest when it cancels it."""
    return asyncio.get_running_loop().create_task(work, name=name)


ENDING = (signal.SIGTERM, signal.SIGINT)


async def signalled() -> int:
    """Wait for SIGTERM or SIGINT; return exit code 0. A second signal ends the process at once."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    for number in ENDING:
        loop.remove_signal_handler(number)
    return 0


EXPECTED = (NodeplaneError, OSError)
"""Exceptions that are somebody's answer; all others are bugs."""


async def wait_set(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until the event is set, at most for a time (None: without end); return False if it was not set in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def shared(work: Coroutine[Any, Any, T], kind: str, subject: str = "") -> asyncio.Task[T]:
    """Start a task that several callers await behind `asyncio.shield`, of whom none may be left at its end.

    Each gets its exception; one that none expects is reported as well.
    """
    task = awaited(work, f"{kind} {subject}".rstrip())
    task.add_done_callback(lambda done: _retrieve(done, kind, subject))
    return task


def _retrieve(task: asyncio.Task[Any], kind: str, subject: str) -> None:
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, EXPECTED):
        failed(kind, subject, error)


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their end. An exception that none expects is reported: nobody awaits its task."""
    for task in tasks:
        task.cancel()
    for task, end in zip(tasks, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
        if isinstance(end, Exception) and not isinstance(end, EXPECTED):
            failed(task.get_coro().__name__, "", end)  # type: ignore[union-attr]  # started from a coroutine


class Tasks:
    """The tasks of one owner. `on_failure` is called for each that fails, unless `start` names another."""

    def __init__(self, on_failure: Failed = report) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self, work: Coroutine[Any, Any, T], kind: str, subject: str = "", on_failure: Failed | None = None
    ) -> asyncio.Task[T]:
        """Start a task named "KIND SUBJECT"; the kind is a constant, since failures are counted by it."""
        name = f"{kind} {subject}" if subject else kind
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, kind, on_failure or self._on_failure))
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    def cancel(self) -> None:
        """Ask all to end."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel all but the caller's own task, and wait until they have ended."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any], kind: str, on_failure: Failed) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            FAILURES[kind] += 1
            on_failure(task.get_name(), error)


async def restarted(
    run: Callable[[], Awaitable[None]], kind: str, subject: str = "", *, first: float = RESTART_FIRST_S
) -> None:
    """Run until it returns. After an exception it is reported and run again, RESTART_MAX_S later at most."""
    failures = 0
    while True:
        began = time.monotonic()
        try:
            return await run()
        except Exception as error:
            failed(kind, subject, error)
        failures = failures + 1 if time.monotonic() - began < RESTART_MAX_S else 1
        await asyncio.sleep(backoff_delay(failures, first, RESTART_MAX_S))


class Threads:
    """A thread for one kind of blocking work, apart from the loop's own, which are shared and few."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Run in a thread; its exception is raised here. Work waits for a free thread in the order of the calls."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def close(self) -> None:
        """Take no more work; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class TooManyHung(NodeplaneError, http=503, grpc="RESOURCE_EXHAUSTED"):
    """Raised for a call that would be one too many beside those that do not return."""


class HangingCalls:
    """Blocking calls that may never return, each in a thread of its own that does not keep the process alive.

    Callers with the same key share a call, so a path that hangs has one thread, however often it is tried.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._running: dict[str, asyncio.Future[Any]] = {}

    async def run(self, key: str, work: Callable[[], T], seconds: float) -> T:
        """Return the call's answer, or raise its exception. Raises TimeoutError, TooManyHung at the deadline."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (running := self._running.get(key)) is None and len(self._running) >= self._most:
            if (left := until - loop.time()) <= 0:
                raise TooManyHung(f"{self._most} calls do not return; is a file server away?")
            await asyncio.wait(self._running.values(), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if running is None:
            running = self._running[key] = loop.create_future()
            threading.Thread(target=self._call, args=(key, work, running), name=self._name, daemon=True).start()
        done, _ = await asyncio.wait((running,), timeout=until - loop.time())
        if not done:
            raise TimeoutError
        answer: T = running.result()
        return answer

    def _call(self, key: str, work: Callable[[], Any], running: "asyncio.Future[Any]") -> None:
        answer, error = None, None
        try:
            answer = work()
        except BaseException as caught:  # raised again by those who wait
            error = caught
        with suppress(RuntimeError):  # the loop has ended meanwhile
            running.get_loop().call_soon_threadsafe(self._returned, key, running, answer, error)

    def _returned(self, key: str, running: "asyncio.Future[Any]", answer: Any, error: BaseException | None) -> None:
        del self._running[key]
        if error is None:
            running.set_result(answer)
        else:
            running.set_exception(error)
            running.exception()  # nobody may wait any more


def one_line(error: BaseException) -> str:
    """Return an exception's text on one line, with the place where it was raised."""
    text = " ".join(str(error).split()) or "no text"
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})" if frame else ""
    return f"{type(error).__name__}: {text}{where}"
