"""RPC as the callee sees it: each request becomes a task, at most once per id, not past its deadline, not too many."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from protocols.bus.bodies import body_of, value_of
from protocols.bus.counters import Counters, Garbage
from protocols.bus.errors import (
    BusError,
    DeadlineExceeded,
    FrameInvalid,
    Internal,
    ResourceExhausted,
    Unimplemented,
    failure_of,
)
from protocols.bus.frames import VERSION, CastFrame, FailureFrame, ReplyFrame, RequestFrame, encode
from protocols.bus.served import Served, ServedLimits, Verdict
from protocols.bus.types import Call, Handler

log = logging.getLogger("bus")
CAST_TTL_MS = 30_000
NOT_KEPT = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED", "DEADLINE_EXCEEDED"})
"""Failures a retry may turn into a success: not remembered."""


class _Method(msgspec.Struct, frozen=True):
    type: type[Any]
    handler: Handler[Any]


class Service:
    """`send(peer, data)` answers; peer b"" means nobody waits (a cast)."""

    def __init__(
        self, handlers: int, send: Callable[[bytes, bytes], bool], counters: Counters, garbage: Garbage
    ) -> None:
        self.epoch = 0
        self._methods: dict[str, _Method] = {}
        self._served = Served(ServedLimits(running=handlers))
        self._casts = 0
        self._send = send
        self._counters = counters
        self._garbage = garbage
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, method: str, type: type[Any], handler: Handler[Any]) -> None:
        self._methods[method] = _Method(type, handler)

    def request(self, peer: bytes, frame: RequestFrame) -> None:
        if frame.ttl_ms <= 0:
            self._counters.late += 1
            return
        verdict = self._served.judge(frame.id, peer)
        if verdict is Verdict.REPLAY:
            self._answer(peer, self._served.reply(frame.id))
        elif verdict is Verdict.FULL:
            self._counters.refused += 1
            self._answer(peer, self._failure(frame.id, ResourceExhausted("too many calls are running here; try later")))
        elif verdict is Verdict.RUN:
            self._spawn(self._run(frame))

    def cast(self, frame: CastFrame) -> None:
        if self._casts >= 256:
            self._counters.refused += 1
            return
        self._casts += 1
        self._spawn(self._run_cast(frame))

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, frame: RequestFrame) -> None:
        keep = frame.idempotent
        reply = b""
        try:
            value = await self._handle(frame.method, frame.body, frame.id, frame.ttl_ms)
            reply = encode(ReplyFrame(VERSION, frame.id, self.epoch, body_of(value)))
        except BusError as error:
            keep = keep and error.code not in NOT_KEPT
            reply = self._failure(frame.id, error)
        except asyncio.CancelledError:
            keep = False
            reply = self._failure(frame.id, BusError("UNAVAILABLE", "the callee stops"))
            raise
        finally:
            self._answer(self._served.done(frame.id, reply, keep), reply)

    async def _run_cast(self, frame: CastFrame) -> None:
        try:
            await self._handle(frame.method, frame.body, "", CAST_TTL_MS)
        except BusError as error:
            log.debug("cast %s failed: %s", frame.method, error)
        finally:
            self._casts -= 1

    async def _handle(self, name: str, body: bytes, id: str, ttl_ms: int) -> msgspec.Struct | None:
        """Any exception of a handler leaves here as a BusError."""
        method = self._methods.get(name)
        if method is None:
            raise Unimplemented(f"no method {name} is served here")
        request = self._decode(name, body, method.type)
        deadline = asyncio.get_running_loop().time() + ttl_ms / 1000
        try:
            async with asyncio.timeout_at(deadline) as scope:
                return await method.handler(request, Call(method=name, id=id, deadline=deadline))
        except BusError:
            raise
        except TimeoutError as error:
            if scope.expired():
                raise DeadlineExceeded(f"{name} was given up at its deadline") from None
            raise Internal(f"{name}: {error or 'a timeout inside'}") from error
        except Exception as error:
            raise self._broken(name, error) from error

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

    def _failure(self, id: str, error: BusError) -> bytes:
        return encode(FailureFrame(VERSION, id, self.epoch, error.code, error.message, error.details))

    def _answer(self, peer: bytes, data: bytes) -> None:
        if not self._send(peer, data):
            self._counters.unsent += 1
