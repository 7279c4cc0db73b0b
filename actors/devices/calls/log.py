"""Record the calls to and from plugins and drivers, and serve the records.

A record is made when a call ends; calls in progress are served beside them. Nothing is published and nothing is written
to disk: the records live as long as this process.
"""

import asyncio
import time
from types import TracebackType
from typing import Any

import grpc
import msgspec
from google.protobuf.message import Message

from actors.devices.calls.ring import Rings, decoded
from actors.devices.model.errors import TooManyFollowers, status_of
from protocols.errors import NodeplaneError
from protocols.messages.calls import MAX_WAIT_S, CallRecord, CallsReply, CallsRequest
from protocols.process.files import encodable
from protocols.trace import call_begins
from protocols.wire.methods import Method
from protocols.wire.rendering import Renderer

MAX_FOLLOWERS = 16
"""Requests that wait at once."""
MAX_PENDING = 64
"""Calls in progress in one reply."""
MAX_PEER = 317
"""Characters of a peer's name or socket, which plugins choose: as many as a resource's name may have."""
MAX_WORDS = 512
"""Characters of an outcome or error."""


class CallPeer(msgspec.Struct, frozen=True):
    """The other end of a call."""

    name: str
    """Resource or driver."""
    socket: str = ""
    known: bool = True
    """It registered; else its name gets no ring of its own."""


class Purpose(msgspec.Struct, frozen=True):
    """The reason of a call, for its record."""

    subject: str = ""
    """NAMESPACE/POD CONTAINER."""
    if_failed: str = ""
    """The consequence of a failure, in words."""


NO_PURPOSE = Purpose()


class RecordedCall:
    """One call. As context manager it records the call at its end, with the exception as its outcome."""

    def __init__(self, log: "CallLog", record: CallRecord, peer: CallPeer, purpose: Purpose) -> None:
        self._log = log
        self._record = record
        self._began = time.perf_counter()
        self._seconds: float | None = None
        """Duration; None while there is no answer."""
        self._purpose = purpose
        self._renderer = Renderer()
        self.peer = peer
        self.outcome = ""
        self.status = "OK"
        self.error = ""
        self._asked = record.incoming
        self._messages: dict[str, dict[str, Any]] = {"request": {}, "reply": {}}

    def asked(self, message: Message) -> None:
        self._asked = True
        self._messages["request"] = self._renderer.message(message, ("request",))

    def answered(self, message: Message) -> None:
        self._seconds = time.perf_counter() - self._began
        self._messages["reply"] = self._renderer.message(message, ("reply",))

    def failed(self, error: grpc.RpcError) -> None:
        """Record the status of a call that ended with an error."""
        self._seconds = time.perf_counter() - self._began
        self.status, self.error = status_of(error)

    def pending(self) -> CallRecord:
        return self._complete(status="")

    def __enter__(self) -> "RecordedCall":
        self._log.opened(self)
        call_begins(self._record.method, self._record.peer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError) and self.status == "OK":
            self.status = "CANCELLED"
        elif error is not None:
            reason = str(error) if isinstance(error, NodeplaneError) else repr(error)
            self.outcome = self.outcome or f"{_line(reason)}: {self._purpose.if_failed}".removesuffix(": ")
            if not self._asked:
                self.status = "UNAVAILABLE"
        self._log.closed(self, self._complete(self.status), self._renderer.secrets)

    def _complete(self, status: str) -> CallRecord:
        return msgspec.structs.replace(
            self._record,
            peer=_name(self.peer.name),
            seconds=time.perf_counter() - self._began if self._seconds is None else self._seconds,
            status=status,
            error=_line(self.error),
            request=self._messages["request"],
            reply=self._messages["reply"],
            omitted=self._renderer.omitted,
            outcome=_line(self.outcome),
        )


def _line(text: str) -> str:
    return encodable(" ".join(text[: 2 * MAX_WORDS].split())[:MAX_WORDS])


def _name(text: str) -> str:
    return encodable(text[:MAX_PEER])


class CallLog:
    """The calls of this incarnation; those that are open are shown, too."""

    def __init__(self) -> None:
        self._rings = Rings()
        self._incarnation = time.time_ns()
        self._open: dict[int, RecordedCall] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    def call(
        self,
        peer: CallPeer,
        method: Method[Any, Any],
        *,
        deadline: float = 0.0,
        purpose: Purpose = NO_PURPOSE,
        incoming: bool = False,
    ) -> RecordedCall:
        """Return a call to be used as context manager. `deadline` is in seconds."""
        record = CallRecord(
            peer=_name(peer.name),
            socket=_name(peer.socket),
            method=method.name,
            began_ns=time.time_ns(),
            deadline=deadline,
            incoming=incoming,
            subject=purpose.subject,
        )
        return RecordedCall(self, record, peer, purpose)

    def report(self, peer: CallPeer, method: Method[Any, Any], report: "StreamMessage") -> None:
        """Record a message of a stream, or its end."""
        record = CallRecord(
            peer=_name(peer.name),
            socket=_name(peer.socket),
            method=method.name,
            began_ns=time.time_ns(),
            status=report.status,
            error=_line(report.error),
            incoming=True,
            reply=report.content,
            omitted=report.renderer.omitted,
            outcome=_line(report.outcome),
        )
        self._add(record, peer, [], report=True)

    def opened(self, call: RecordedCall) -> None:
        self._open[id(call)] = call

    def closed(self, call: RecordedCall, record: CallRecord, secrets: list[Any]) -> None:
        self._open.pop(id(call), None)
        self._add(record, call.peer, secrets, report=False)

    def _add(self, record: CallRecord, peer: CallPeer, secrets: list[Any], *, report: bool) -> None:
        self._rings.add(record, secrets, report=report, known=peer.known)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def serve(self, request: CallsRequest) -> CallsReply:
        """Return the records after the request's position. Raises TooManyFollowers."""
        after = request.after if request.incarnation == self._incarnation else 0
        reply = self._reply(request, after)
        if reply.records or request.wait <= 0:
            return reply
        if len(self._waiting) >= MAX_FOLLOWERS:
            raise TooManyFollowers(f"{MAX_FOLLOWERS} clients follow the calls already; end one, or ask without waiting")
        await self._wait(min(request.wait, MAX_WAIT_S))
        return self._reply(request, after)

    async def _wait(self, seconds: float) -> None:
        added: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(added)
        try:
            await asyncio.wait([added], timeout=seconds)
        finally:
            self._waiting.discard(added)

    def _reply(self, request: CallsRequest, after: int) -> CallsReply:
        entries, more = self._rings.page(request.peer, after)
        records = (decoded(entry, show_secrets=request.show_secrets) for entry in entries)
        pending = (call.pending() for call in self._open.values())
        return CallsReply(
            incarnation=self._incarnation,
            newest=entries[-1].number if more else self._rings.newest,
            more=more,
            records=tuple(item for item in records if request.peer in ("", item.peer)),
            pending=tuple(item for item in pending if request.peer in ("", item.peer))[:MAX_PENDING],
        )


class StreamMessage:
    """Content of a message of a stream, as it is recorded."""

    def __init__(self, outcome: str, status: str = "OK", error: str = "") -> None:
        self.outcome = outcome
        self.status = status
        self.error = error
        self.content: dict[str, Any] = {}
        self.renderer = Renderer()
