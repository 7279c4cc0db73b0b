"""A call that was made or forwarded, as the device manager's own record has it."""

import time
from typing import Any

import msgspec

from protocols.messages.calls import CallRecord
from protocols.wire.methods import Method
from protocols.wire.rendering import render_call


class Sent(msgspec.Struct):
    """A call that has begun. Times are set when it is made."""

    method: Method[Any, Any]
    peer: str
    socket: str = ""
    request: bytes = b""
    deadline: float = 0.0
    incoming: bool = False
    reply: bytes = b""
    status: str = "OK"
    """Empty = it was in progress when the record ended."""
    error: str = ""
    began_ns: int = msgspec.field(default_factory=time.time_ns)
    began: float = msgspec.field(default_factory=time.perf_counter)

    def record(self) -> CallRecord:
        shown = render_call(self.method.request, self.request, self.method.reply, self.reply)
        return CallRecord(
            peer=self.peer,
            method=self.method.name,
            began_ns=self.began_ns,
            socket=self.socket,
            seconds=time.perf_counter() - self.began,
            deadline=self.deadline,
            status=self.status,
            error=self.error,
            incoming=self.incoming,
            request=shown.request,
            reply=shown.reply,
            omitted=shown.omitted,
        )
