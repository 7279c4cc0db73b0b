"""The caller's table of open RPCs towards one callee: what to send, what to repeat, what has failed. Pure.

A call that was sent and must not be repeated fails when its callee is known to be gone; an idempotent one is sent again
under the same id.
"""

import msgspec

from protocols.bus.errors import BusError, DeadlineExceeded, ResourceExhausted, Unavailable
from protocols.bus.frames import VERSION, RequestFrame
from protocols.process.rates import backoff_delay

OPEN_LIMIT = 4096
RETRY_FIRST = 0.05
RETRY_MOST = 2.0


class OpenCall(msgspec.Struct, eq=False):
    """One RPC without an answer yet; deadline and times are on the caller's loop clock."""

    id: str
    method: str
    body: bytes
    deadline: float
    idempotent: bool
    sent: bool = False
    """Went out over the connection that is up now."""
    epoch: int = 0
    """Epoch of the callee it was sent to; 0 while that is not known."""
    attempts: int = 0
    sent_at: float = 0.0
    resend_at: float = 0.0


class CallTable:
    """Open calls towards one callee, OPEN_LIMIT at most: one more raises ResourceExhausted."""

    def __init__(self, callee: str, client: str) -> None:
        self._callee = callee
        self._client = client
        self._count = 0
        self._open: dict[str, OpenCall] = {}
        self.epoch = 0
        """The callee's epoch, as last received over the current connection."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, method: str, body: bytes, deadline: float, idempotent: bool) -> OpenCall:
        if len(self._open) >= OPEN_LIMIT:
            raise ResourceExhausted(f"{OPEN_LIMIT} calls to {self._callee} are open already")
        self._count += 1
        call = OpenCall(f"{self._client}:{self._count}", method, body, deadline, idempotent)
        self._open[call.id] = call
        return call

    def close(self, id: str) -> OpenCall | None:
        return self._open.pop(id, None)

    def get(self, id: str) -> OpenCall | None:
        return self._open.get(id)

    def request(self, call: OpenCall, now: float) -> RequestFrame:
        ttl = max(0, int((call.deadline - now) * 1000))
        return RequestFrame(VERSION, call.id, call.method, ttl, call.idempotent, call.body)

    def went(self, call: OpenCall, now: float) -> None:
        """Note that the call's frame was handed to the connection."""
        call.sent, call.epoch, call.sent_at = True, self.epoch, now
        call.attempts += 1

    def due(self, now: float) -> list[OpenCall]:
        """Return the calls to send now, oldest first."""
        return [call for call in self._open.values() if not call.sent and call.resend_at <= now]

    def next_due(self) -> float | None:
        return min((call.resend_at for call in self._open.values() if not call.sent), default=None)

    def waiting_since(self, before: float) -> bool:
        """Return True when a call sent before that time has no answer, which is a reason for a ping."""
        return any(call.sent and call.sent_at < before for call in self._open.values())

    def lost(self, now: float) -> list[OpenCall]:
        """Handle a lost connection: return the calls that failed by it; the others wait for the next connection."""
        self.epoch = 0
        return self._drop([call for call in self._open.values() if call.sent], now)

    def heard(self, epoch: int, now: float) -> list[OpenCall]:
        """Handle a message of the callee: return the calls that died with an earlier incarnation of it."""
        self.epoch = epoch
        gone = []
        for call in self._open.values():
            if call.sent and call.epoch == 0:
                call.epoch = epoch
            elif call.sent and call.epoch != epoch:
                gone.append(call)
        return self._drop(gone, now)

    def _drop(self, gone: list[OpenCall], now: float) -> list[OpenCall]:
        failed = []
        for call in gone:
            if call.idempotent:
                call.sent = False
                call.resend_at = now + backoff_delay(call.attempts, RETRY_FIRST, RETRY_MOST)
            else:
                failed.append(call)
                del self._open[call.id]
        return failed

    def died(self, call: OpenCall) -> BusError:
        return Unavailable(f"{self._callee} died during {call.method}; whether it took effect is not known")

    def late(self, call: OpenCall) -> BusError:
        """Return the error of a call that missed its deadline."""
        if call.sent:
            return DeadlineExceeded(f"{self._callee} did not answer {call.method} in time")
        return Unavailable(f"{self._callee} is not running: no connection for {call.method} before its deadline")
