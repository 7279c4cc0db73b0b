"""RPC on the callee's side: each request becomes a task, at most once per id, not past its deadline, not too many."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from protocols.bus.channel import Counters, Garbage
from protocols.bus.errors import (
    BusError,
    DeadlineExceeded,
    FrameInvalid,
    Internal,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
    failure_of,
)
from protocols.bus.frames import VERSION, CastFrame, FailureFrame, ReplyFrame, RequestFrame, body_of, encode, value_of
from protocols.bus.types import Call, Handler
from protocols.process.tasks import Tasks


class RequestVerdict(Enum):
    """Decision about a request by its id, so that an RPC runs at most once."""

    RUN = 1
    WAIT = 2
    """It runs: its reply goes to the latest caller."""
    REPLAY = 3
    """It ran: the stored reply answers."""
    FULL = 4


class ServedLimits(msgspec.Struct, frozen=True):
    """Bounds on requests that run at once and on the replies retained for repeated requests."""

    running: int = 256
    replies: int = 2048
    reply_bytes: int = 8 << 20


class ServedRequests:
    """Ids of requests that run or ran lately; the newest replies are retained for callers that ask again."""

    def __init__(self, limits: ServedLimits | None = None) -> None:
        self._limits = limits or ServedLimits()
        self._running: dict[str, bytes] = {}
        self._replies: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    @property
    def running(self) -> int:
        return len(self._running)

    def judge(self, id: str, peer: bytes) -> RequestVerdict:
        """Return how to handle a request; RUN also records it as running."""
        if id in self._running:
            self._running[id] = peer
            return RequestVerdict.WAIT
        if id in self._replies:
            return RequestVerdict.REPLAY
        if len(self._running) >= self._limits.running:
            return RequestVerdict.FULL
        self._running[id] = peer
        return RequestVerdict.RUN

    def reply(self, id: str) -> bytes:
        return self._replies[id]

    def done(self, id: str, reply: bytes, keep: bool) -> bytes:
        """Record the end of a request and return the peer to answer. `keep`: a retry may come."""
        peer = self._running.pop(id)
        if keep:
            self._replies[id] = reply
            self._bytes += len(reply)
            self._trim()
        return peer

    def _trim(self) -> None:
        while len(self._replies) > self._limits.replies or self._bytes > self._limits.reply_bytes:
            _, reply = self._replies.popitem(last=False)
            self._bytes -= len(reply)


log = logging.getLogger("bus")
CAST_TTL = 30.0
CASTS = 256
NOT_KEPT = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED", "DEADLINE_EXCEEDED"})
"""Failures a retry may turn into a success: not remembered."""


class _Method(msgspec.Struct, frozen=True):
    type: type[Any]
    handler: Handler[Any]


class BusService:
    """`send(peer, data)` answers; peer b"" means nobody waits (a cast)."""

    def __init__(
        self, handlers: int, send: Callable[[bytes, bytes], bool], counters: Counters, garbage: Garbage
    ) -> None:
        self.epoch = 0
        self._methods: dict[str, _Method] = {}
        self._served = ServedRequests(ServedLimits(running=handlers))
        self._casts = 0
        self._send = send
        self._counters = counters
        self._garbage = garbage
        self._owner = Tasks()
        self._tasks: dict[asyncio.Task[Any], float] = {}
        """Deadlines of those that have begun: one that is cancelled before would not record the end of its request."""
        self._loop = asyncio.get_running_loop()

    def serve(self, method: str, type: type[Any], handler: Handler[Any]) -> None:
        self._methods[method] = _Method(type, handler)

    def request(self, peer: bytes, frame: RequestFrame) -> None:
        if frame.ttl_ms <= 0:
            self._counters.late += 1
            return
        verdict = self._served.judge(frame.id, peer)
        if verdict is RequestVerdict.REPLAY:
            self._answer(peer, self._served.reply(frame.id))
        elif verdict is RequestVerdict.FULL:
            self._counters.refused += 1
            self._answer(peer, self._failure(frame.id, ResourceExhausted("too many calls are running here; try later")))
        elif verdict is RequestVerdict.RUN:
            self._owner.start(self._run(frame, self._loop.time() + frame.ttl_ms / 1000), "bus call")

    def cast(self, frame: CastFrame) -> None:
        if self._casts >= CASTS:
            self._counters.refused += 1
            return
        self._casts += 1
        self._owner.start(self._run_cast(frame, self._loop.time() + CAST_TTL), "bus call")

    async def close(self) -> None:
        await self._owner.close()

    def on_tick(self) -> None:
        """Cancel requests that run past their deadline."""
        now = self._loop.time()
        for task in [task for task, deadline in self._tasks.items() if deadline < now]:
            task.cancel()

    async def _run(self, frame: RequestFrame, deadline: float) -> None:
        keep = frame.idempotent
        reply = b""
        try:
            value = await self._handle(frame.method, frame.body, frame.id, deadline)
            reply = encode(ReplyFrame(VERSION, frame.id, self.epoch, body_of(value)))
        except BusError as error:
            keep = keep and error.code not in NOT_KEPT
            reply = self._failure(frame.id, error)
        except asyncio.CancelledError:
            keep = False
            reply = self._failure(frame.id, self._cancelled(frame.method, deadline))
            raise
        finally:
            self._answer(self._served.done(frame.id, reply, keep), reply)

    async def _run_cast(self, frame: CastFrame, deadline: float) -> None:
        try:
            await self._handle(frame.method, frame.body, "", deadline)
        except BusError as error:
            log.debug("cast %s failed: %s", frame.method, error)
        finally:
            self._casts -= 1

    async def _handle(self, name: str, body: bytes, id: str, deadline: float) -> msgspec.Struct | None:
        """Run a handler; any exception of it is raised as a BusError."""
        method = self._methods.get(name)
        if method is None:
            raise Unimplemented(f"no method {name} is served here")
        request = self._decode(name, body, method.type)
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        self._tasks[task] = deadline
        try:
            return await method.handler(request, Call(method=name, id=id, deadline=deadline))
        except BusError:
            raise
        except Exception as error:
            raise self._broken(name, error) from error
        finally:
            del self._tasks[task]

    def _decode(self, name: str, body: bytes, type: type[Any]) -> Any:
        try:
            return value_of(body, type)
        except FrameInvalid as error:
            self._garbage.note(f"callers of {name}", error)
            raise

    def _broken(self, name: str, error: Exception) -> BusError:
        failure = failure_of(error)
        if isinstance(failure, Internal):
            log.error("handler of %s broke: %s: %s", name, type(error).__name__, error)
        return failure

    def _cancelled(self, name: str, deadline: float) -> BusError:
        if self._loop.time() >= deadline:
            return DeadlineExceeded(f"{name} was given up at its deadline")
        return Unavailable("the callee stops")

    def _failure(self, id: str, error: BusError) -> bytes:
        return encode(FailureFrame(VERSION, id, self.epoch, error.code, error.message, error.details))

    def _answer(self, peer: bytes, data: bytes) -> None:
        if not self._send(peer, data):
            self._counters.unsent += 1
