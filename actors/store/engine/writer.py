"""Group commit: writes that arrive during a commit are committed together by the next one.

One thread evaluates and writes. Only the event loop changes the index, after the commit and while the thread is idle.
So the thread reads the index without locks, and no reader ever sees a write that is not on disk.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec

from actors.store.file import upkeep
from actors.store.file.object_log import ObjectLog
from actors.store.model.errors import NoSpace, Stopped, StoreError, TooManyRequests
from actors.store.model.options import StoreOptions
from actors.store.model.types import Commit
from actors.store.mvcc.index import Draft, KeyIndex
from actors.store.mvcc.lease_table import LeaseTable
from actors.store.mvcc.retention import Quota

T = TypeVar("T")
log = logging.getLogger("store")
Work = Callable[[], Any]
Done = Callable[[Any, BaseException | None], None]
"""Called in the event loop with the result of the work, or with its exception."""


class WriterThread:
    """A thread that runs work in order, with one wake-up of the event loop for each result.

    It starts with the first work; `stop` ends it after the work it has.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def do(self, work: Work, done: Done) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True).start()
        self._work.put((work, done))

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result. It runs to its end even if the caller is cancelled."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(answer: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)

        self.do(work, done)
        return await future

    def stop(self) -> None:
        self._work.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            answer, error = None, None
            try:
                answer = work()
            except BaseException as caught:  # passed on to the caller
                error = caught
            loop.call_soon_threadsafe(done, answer, error)


Operation = Callable[[Draft], T]
"""Pure: reads and changes the draft, and returns the answer or raises a StoreError."""


LARGE_BYTES = 64 * 1024
"""Bytes above which a write does not hold up smaller ones that arrive later."""
PAGE_BYTES = 4096
"""Size of a page of the WAL."""


class PendingWrite(msgspec.Struct):
    """A write with the future of its caller."""

    operation: Operation[Any]
    future: asyncio.Future[Any]
    size: int


class BatchResult(msgspec.Struct):
    """The commit of a batch, and each operation's answer or error."""

    commit: Commit
    revision: int
    answers: list[Any]


class Writer:
    """Commits submitted operations; `on_commit` is called in the event loop after each commit, before the answers."""

    def __init__(
        self,
        options: StoreOptions,
        log: ObjectLog,
        index: KeyIndex,
        leases: LeaseTable,
        on_commit: Callable[[Commit], None],
    ) -> None:
        self._options, self._log, self._index, self._leases = options, log, index, leases
        self._on_commit = on_commit
        self._small: deque[PendingWrite] = deque()
        self._large: deque[PendingWrite] = deque()
        self._large_next = False
        self._unanswered_bytes = 0
        """Sum of the writes that wait or are being committed."""
        self._thread = WriterThread("store-writer")
        self._busy = False
        """True while a commit is running or scheduled; writes submitted meanwhile belong to the next one."""
        self._broken: asyncio.Future[None] | None = None
        self._dirty_pages = 0
        """Pages of the WAL since the last checkpoint, about."""
        self._stopped = False
        self.commits = 0
        self.failures = 0
        self.checkpoint_failures = 0
        self._checkpoint_failure = ""
        """Error of the last checkpoint; empty if it succeeded."""
        self.full = False
        """True if the last commit failed for lack of space."""
        self.quota = Quota(options.quota_bytes)
        self.on_pressure: Callable[[], None] = _ignore_pressure
        """Called when history should be compacted to free space."""

    async def submit(self, operation: Operation[T], size: int = 0) -> T:
        """Run `operation` and return its answer once it is on disk. `size` is that of its values in bytes, about.

        Raises:
            StoreError: Nothing of it was stored.
            TooManyRequests: Too many writes wait, or too many bytes of them.
        """
        if self._stopped:
            raise Stopped()
        waiting, pending = self._small if size <= LARGE_BYTES else self._large, len(self._small) + len(self._large)
        options = self._options
        if pending >= options.pending_requests or self._unanswered_bytes + size > options.pending_bytes:
            raise TooManyRequests()
        self._unanswered_bytes += size
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        waiting.append(PendingWrite(operation, future, size))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._begin)
        return await future

    async def in_thread(self, work: Callable[[ObjectLog], T]) -> T:
        """Run upkeep between two commits."""
        if self._stopped:
            raise Stopped()
        return await self._thread.run(partial(work, self._log))

    async def run(self) -> None:
        """Wait for `stop`, or raise the unexpected error of a commit."""
        self._broken = asyncio.get_running_loop().create_future()
        await self._broken

    def _begin(self) -> None:
        """Start the next batch. There is no timer: a lone write is committed at once, many share a commit."""
        batch = self._take()
        self._busy = bool(batch)
        if batch:
            self._thread.do(partial(self._commit, batch), partial(self._finish, batch))

    def _finish(
        self, batch: list[PendingWrite], outcome: BatchResult | StoreError, error: BaseException | None
    ) -> None:
        try:
            if error is not None:
                raise error
            self._unanswered_bytes -= sum(waiting.size for waiting in batch)
            self._apply_outcome(batch, outcome)
        except BaseException as fault:  # ends the process: memory and disk may differ
            self._break(fault)
            return
        # Small writes that waited for a large one do not wait for a checkpoint as well: it follows them.
        small_first = bool(self._small) and not self._large_next
        # A failed checkpoint only lets the WAL grow, and is tried again.
        if self._dirty_pages >= self._options.checkpoint_pages and not small_first:
            self._dirty_pages = 0
            self._thread.do(partial(upkeep.checkpoint, self._log), self._checkpointed)
        else:
            self._begin()

    def _checkpointed(self, answer: None, error: BaseException | None) -> None:
        self.checkpoint_failures += error is not None
        failure = str(error or "")
        if failure and failure != self._checkpoint_failure:  # once per error, not once per try
            log.error("checkpoint failed, the write-ahead log grows error=%s", failure)
        self._checkpoint_failure = failure
        self._begin()

    def _break(self, fault: BaseException) -> None:
        self._stopped = True
        if self._broken is not None and not self._broken.done():
            self._broken.set_exception(fault)

    def _take(self) -> list[PendingWrite]:
        """Return the writes of the next commit: small and large ones in turn, so that none waits for many large ones.

        A large one waits for the large ones before it and, between two of these, for the small ones.
        """
        small, large, options = self._small, self._large, self._options
        takes_large = bool(large) and (self._large_next or not small)
        self._large_next = not takes_large
        if not takes_large:
            return [small.popleft() for _ in range(min(len(small), options.batch_requests))]
        batch = [large.popleft()]
        left = options.batch_bytes - batch[0].size
        while large and len(batch) < options.batch_requests and left >= large[0].size:
            left -= large[0].size
            batch.append(large.popleft())
        return batch

    def _commit(self, batch: list[PendingWrite]) -> BatchResult | StoreError:
        draft = Draft(self._index, self._leases)
        if self.quota.due:
            with suppress(StoreError):  # the next commit measures again
                self.quota.measured(upkeep.file_size(self._log)[1])
        answers = [_evaluate(waiting.operation, draft, self.quota.exceeded) for waiting in batch]
        commit = draft.finish()
        try:
            if not commit.empty or commit.compacted != self._index.compacted:
                self._log.commit(commit)
        except StoreError as error:
            return error
        return BatchResult(commit, draft.revision, answers)

    def _apply_outcome(self, batch: list[PendingWrite], outcome: BatchResult | StoreError) -> None:
        if isinstance(outcome, StoreError):
            self.failures += 1
            self.full = isinstance(outcome, NoSpace)
            for waiting in batch:
                _answer(waiting.future, outcome)
            return
        commit = outcome.commit
        self.commits += 1
        self.full = self.full and commit.empty
        size = sum(len(change.kv.key) + len(change.kv.value) for change in commit.changes)
        self._dirty_pages += 1 + len(commit.changes) + size // PAGE_BYTES  # of rows, of the index, of values
        if commit.changes:
            self.quota.wrote(size)
            if self.quota.under_pressure:
                self.on_pressure()
        self._index.apply(commit.changes, outcome.revision, commit.compacted)
        self._leases.apply(commit, time.monotonic())
        self._on_commit(commit)
        for waiting, answer in zip(batch, outcome.answers, strict=True):
            _answer(waiting.future, answer)

    async def stop(self) -> None:
        """Reject waiting writes, finish the running commit and close the file."""
        self._stopped = True
        for waiting in (*self._small, *self._large):
            _answer(waiting.future, Stopped())
        self._small.clear()
        self._large.clear()
        await self._thread.run(self._close)
        self._thread.stop()
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(None)

    def _close(self) -> None:
        try:
            upkeep.checkpoint(self._log, "TRUNCATE")
        except StoreError as error:  # what is not copied stays in the write-ahead log, which the next start reads
            log.error("checkpoint failed before the end error=%s", error)
        self._log.close()


def _ignore_pressure() -> None:
    """Do nothing: no compactor is attached."""


def _evaluate(operation: Operation[Any], draft: Draft, exceeded: bool) -> Any:
    try:
        with draft.operation():
            answer = operation(draft)
            if exceeded and draft.grows:
                raise NoSpace()
            return answer
    except StoreError as error:
        return error
    except Exception as error:  # an unexpected error must not fail the other requests of the batch
        return StoreError(f"etcdserver: internal error: {type(error).__name__}: {error}")


def _answer(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return
    if isinstance(answer, StoreError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
