"""Faults put on purpose between the runtime's events and those who hear them (`nodeplane chaos runtime`). Pure."""

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from google.protobuf.message import DecodeError

from protocols.errors import NodeplaneError
from protocols.messages import cri as messages
from protocols.wire import cri_pb2


class FaultUnknown(NodeplaneError):
    """Raised when a fault is asked for that there is not."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


BATCH = 4
"""Events that reorder-events keeps back, to pass them on the other way round."""
HELD = 4096
"""Events that a stall keeps at most; the oldest are lost then, as in a runtime's own buffer."""


@dataclass
class Faults:
    fault: str = ""
    count: int = 0
    """Events still to be dropped; 0 with drop-events: all."""
    shift_ns: int = 0
    _held: deque[bytes] = field(default_factory=lambda: deque(maxlen=HELD))

    def set(self, request: messages.ChaosRuntime) -> list[bytes]:
        """Take on another fault; returns what the former one kept back. Raises FaultUnknown."""
        if request.fault not in messages.RUNTIME_FAULTS:
            raise FaultUnknown(f"no fault {request.fault!r}; there are {', '.join(messages.RUNTIME_FAULTS)}")
        self.fault = "" if request.fault in (messages.CLEAR, messages.DISCONNECT) else request.fault
        self.count, self.shift_ns = request.count, 0
        if self.fault == messages.CLOCK_JUMP:
            self.shift_ns = int(request.seconds * 1e9)
        return self.flush()

    def flush(self) -> list[bytes]:
        """What is kept back, in the order in which it is to be heard."""
        kept = list(self._held)
        self._held.clear()
        return kept[::-1] if self.fault == messages.REORDER else kept

    def pass_on(self, payload: bytes) -> list[bytes]:
        """What is heard of one event of the runtime, now."""
        if self.fault == messages.DROP:
            return self._drop(payload)
        if self.fault in (messages.STALL, messages.REORDER):
            self._held.append(payload)
            return self.flush() if self.fault == messages.REORDER and len(self._held) >= BATCH else []
        if self.fault == messages.DUPLICATE:
            return [payload, payload]
        return [self.shifted_event(payload)]

    def _drop(self, payload: bytes) -> list[bytes]:
        if self.count == 1:
            self.fault = ""
        self.count = max(0, self.count - 1)
        return []

    def shifted_event(self, payload: bytes) -> bytes:
        if not self.shift_ns:
            return payload
        try:
            event = cri_pb2.ContainerEventResponse.FromString(payload)
        except DecodeError:
            return payload
        event.created_at += self.shift_ns
        return event.SerializeToString()

    def shifted_status(self, reply: bytes) -> bytes:
        """The same for the stamp of a PodSandboxStatusResponse."""
        if not self.shift_ns:
            return reply
        try:
            answer = cri_pb2.PodSandboxStatusResponse.FromString(reply)
        except DecodeError:
            return reply
        answer.timestamp += self.shift_ns if answer.timestamp else 0
        return answer.SerializeToString()
