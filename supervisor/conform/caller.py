"""Calls with deadlines to a program that serves, and streams of it; each call and message is recorded."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from protocols.process.tasks import Tasks, awaited
from protocols.wire.methods import Method, plugin_channel
from supervisor.conform.exchange import Exchange, ExchangeRecorder, Sent
from supervisor.conform.verdict import CallFailed, NotApplicable
from supervisor.conform.waiting import ChangeSignal

MAX_TIMES = 64
SENT_S = (0.02, 0.2)
"""From a call until what breaks it off, early and late: the request is sent by then, the answer may be."""
MALFORMED = "MALFORMED"
"""Status of a CallFailed whose answer is no valid message: INTERNAL may be a program's own."""
NO_ANSWER = ("DEADLINE_EXCEEDED", "UNAVAILABLE", MALFORMED)
"""Statuses of calls that the program did not decide."""
Reply = TypeVar("Reply", bound=Message)


class ServicePeer:
    """One connection to a program's service."""

    ALWAYS_ASKED: ClassVar[tuple[str, ...]] = ()
    """Methods that are called although they were not answered in time before."""

    def __init__(self, name: str, socket: Path, recorder: ExchangeRecorder, timeout: float) -> None:
        self.name, self.socket, self.recorder, self.timeout = name, socket, recorder, timeout
        self.channel = plugin_channel(socket)
        self._closed = False
        self.last: Exchange | None = None
        """The newest call."""

    def another(self: Self) -> Self:
        """Return another connection to the same socket; the caller closes it."""
        raise NotImplementedError

    async def probe(self) -> None:
        """Make a call that changes nothing. Raises CallFailed."""
        raise NotImplementedError

    def evidence(self) -> Sequence[Exchange | None]:
        """Return exchanges of before that behaviours about what is listed show."""
        return ()

    async def call(self, method: Method[Any, Reply], request: Message, timeout: float = 0.0) -> Reply:
        """Raises CallFailed, NotApplicable."""
        if (self.name, method.path) in self.recorder.hung:
            raise NotApplicable(f"{method.name} was not answered in time before")
        if self.is_closed():
            raise CallFailed("CANCELLED", f"{method.name} was not called: the connection is closed")
        sent = Sent(method, self.name, request=request.SerializeToString())
        call: Any = self.channel.unary_unary(method.path)
        try:
            sent.reply = await call(sent.request, timeout=timeout or self.timeout)
            return method.reply.FromString(sent.reply)
        except grpc.aio.AioRpcError as error:
            sent.status, sent.error = error.code().name, error.details() or ""
            text = f"{method.name} was answered with {sent.status}: {sent.error}"
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                if method.name not in self.ALWAYS_ASKED:
                    self.recorder.hung.add((self.name, method.path))
                text = f"{method.name} was not answered within {timeout or self.timeout:g} s"
            raise CallFailed(sent.status, text) from None
        except asyncio.CancelledError:
            if not self.is_closed() or _is_cancelled():
                raise
            sent.status, sent.error = "CANCELLED", "the connection was closed"
            raise CallFailed("CANCELLED", f"{method.name} broke off: {sent.error}") from None
        except DecodeError:
            sent.status, sent.error = "INTERNAL", f"not a valid {method.reply.DESCRIPTOR.name}"
            raise CallFailed(MALFORMED, f"{method.name} was answered with bytes that are {sent.error}") from None
        finally:
            self.last = sent.done()
            self.recorder.add(self.last)

    def is_closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        self._closed = True
        await self.channel.close()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def broken_off(call: Coroutine[Any, Any, object], seconds: float, by: Callable[[], Awaitable[object]]) -> None:
    """Begin a call, run `by` after some seconds to break it off, and wait for its end; a failed call is no error."""
    begun = awaited(call)
    try:
        await asyncio.sleep(seconds)
        await by()
    except BaseException:
        begun.cancel()
        raise
    with suppress(CallFailed):
        await begun


class CallStream(Generic[Reply]):
    """A call that receives a stream of messages: their number, the newest one, and the end."""

    def __init__(self, peer: ServicePeer, method: Method[Any, Reply]) -> None:
        self.count = 0
        self.newest: Reply | None = None
        self.first: Exchange | None = None
        self.times: deque[float] = deque(maxlen=MAX_TIMES)
        """Times of the last messages, of time.monotonic."""
        self.ended = ""
        """Why the stream is over; empty while it is open."""
        self.listener: Callable[[Reply], None] | None = None
        """Called with each message."""
        self._peer, self._method = peer, method
        self._changes = ChangeSignal()
        self._tasks = Tasks()
        listen: Any = peer.channel.unary_stream(method.path, request_serializer=method.request.SerializeToString)
        self._call: Any = listen(method.request())
        self._tasks.start(self._read(), f"reads {method.name}")

    async def _read(self) -> None:
        try:
            async for raw in self._call:
                self._take(raw)
            self.ended = "the program closed it"
        except grpc.aio.AioRpcError as error:
            self.ended = f"{error.code().name}: {error.details()}"
        self._changes.notify()

    def _take(self, raw: bytes) -> None:
        sent = Sent(self._method, self._peer.name, incoming=True, reply=raw, streamed=True)
        self.count += 1
        self.times.append(time.monotonic())
        try:
            self.newest = self._method.reply.FromString(raw)
            if self.listener:
                self.listener(self.newest)
        except DecodeError:
            sent.status, sent.error = "INTERNAL", f"not a valid {self._method.reply.DESCRIPTOR.name}"
        exchange = sent.done()
        self.first = self.first or exchange
        self._peer.recorder.add(exchange)
        self._changes.notify()

    async def until(self, holds: Callable[["CallStream[Reply]"], bool], seconds: float) -> bool:
        """Wait until it holds; return False if it does not in time."""
        return await self._changes.until(lambda: holds(self), seconds)

    async def close(self) -> None:
        self._call.cancel()
        await self._tasks.close()
