"""Fault injection between the runtime's events and their followers (`nodeplane chaos runtime`). Pure."""

from collections import deque

import msgspec
from google.protobuf.message import DecodeError

from protocols.errors import NodeplaneError
from protocols.messages import cri as messages
from protocols.wire import cri_pb2


class FaultUnknown(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised for an unknown fault."""


class ShiftTooLarge(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised for a clock-jump beyond MOST_SHIFT_S: timestamps in nanoseconds could not carry it."""


REORDER_BATCH = 4
"""Events that reorder-events holds back and passes on in reverse order."""
MOST_HELD = 4096
"""Most events that a stall holds back; then the oldest are lost, as in a runtime's own buffer."""


class InjectedFaults(msgspec.Struct):
    """The fault that is switched on, and the events it holds back, MOST_HELD at most."""

    fault: str = ""
    count: int = 0
    """Events still to drop; with drop-events 0 means all."""
    shift_ns: int = 0
    _held: deque[bytes] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_HELD))

    def set(self, request: messages.ChaosRuntime) -> list[bytes]:
        """Switch to another fault; return the events that the previous one held back.

        Raises FaultUnknown, ShiftTooLarge.
        """
        if request.fault not in messages.RUNTIME_FAULTS:
            raise FaultUnknown(f"no fault {request.fault!r}; there are {', '.join(messages.RUNTIME_FAULTS)}")
        if not abs(request.seconds) <= messages.MOST_SHIFT_S:  # NaN compares as false
            raise ShiftTooLarge(f"clock-jump of {request.seconds:g} s; use at most {messages.MOST_SHIFT_S:g} s")
        self.fault = "" if request.fault in (messages.CLEAR, messages.DISCONNECT) else request.fault
        self.count, self.shift_ns = request.count, 0
        if self.fault == messages.CLOCK_JUMP:
            self.shift_ns = int(request.seconds * 1e9)
        return self.flush()

    def flush(self) -> list[bytes]:
        """Return and clear the events held back, in the order to publish them."""
        held = list(self._held)
        self._held.clear()
        return held[::-1] if self.fault == messages.REORDER else held

    def apply(self, payload: bytes) -> list[bytes]:
        """Return the events to publish now for one event of the runtime."""
        if self.fault == messages.DROP:
            return self._drop(payload)
        if self.fault in (messages.STALL, messages.REORDER):
            self._held.append(payload)
            return self.flush() if self.fault == messages.REORDER and len(self._held) >= REORDER_BATCH else []
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
        """Shift the timestamp of a PodSandboxStatusResponse."""
        if not self.shift_ns:
            return reply
        try:
            answer = cri_pb2.PodSandboxStatusResponse.FromString(reply)
        except DecodeError:
            return reply
        answer.timestamp += self.shift_ns if answer.timestamp else 0
        return answer.SerializeToString()
