"""Record steps in the life of pods: `record` and `span`, which any actor calls in its event loop, and their ring.

- A span belongs to a pod by its uid, so no caller hands a context around. Inside a block of `span` the uid
  may be empty.
- Recording neither waits nor sends. The ring retains the newest RETAINED spans; one more drops the oldest.
- Times are of CLOCK_BOOTTIME: processes of one machine share it, and it never jumps, unlike the wall clock.
"""

import os
import time
from collections import deque
from contextvars import ContextVar, Token
from itertools import count, islice
from types import TracebackType
from typing import Self

import msgspec
from msgspec import structs

from protocols.bus import Bus, Call
from protocols.messages.trace import (
    BATCH,
    RETAINED,
    RETAINED_BYTES,
    SPANS,
    STEPS,
    Span,
    SpanQuery,
    StepList,
    StepOrder,
)
from protocols.process.files import encodable
from protocols.trace.steps import COUNTER

LONGEST = 256
"""Characters of a name or an attribute; plugins and drivers choose some of them."""
MARK = "…"
_block: ContextVar[tuple[str, int]] = ContextVar("block", default=("", 0))
"""Pod and id of the innermost block of `span` in this task, and in the tasks that it starts."""
_ids: "count[int] | None" = None
"""Ids of spans; it begins at random with the first span of a process, which may have been forked."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Span).decode


def clock() -> int:
    """Return the time that spans are measured in, in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_offset() -> int:
    """Return the nanoseconds to add to `clock` for the wall-clock time, as it is set now."""
    return time.time_ns() - clock()


def from_wall(wall_ns: int) -> int:
    """Return a wall-clock time in terms of `clock`."""
    return wall_ns - wall_offset()


class RawBatch(msgspec.Struct, frozen=True):
    """A SpanBatch whose spans are encoded already."""

    epoch: int
    position: int
    missed: int
    more: bool
    spans: tuple[msgspec.Raw, ...]


class SpanRecorder:
    """The newest spans of one process, encoded: a span costs one object of some 150 bytes."""

    def __init__(self, retained: int = RETAINED, batch: int = BATCH, size: int = RETAINED_BYTES) -> None:
        self._ring: deque[bytes] = deque()
        self._retained, self._size, self._batch = retained, size, batch
        self._used = 0
        self.recorded = 0

    @property
    def dropped(self) -> int:
        """Number of spans that are no longer retained."""
        return self.recorded - len(self._ring)

    def add(self, span: Span) -> None:
        data, ring = _encode(span), self._ring
        ring.append(data)
        self.recorded += 1
        self._used += len(data)
        while len(ring) > self._retained or self._used > self._size:
            self._used -= len(ring.popleft())

    def pods(self) -> frozenset[str]:
        """Return the uids of the pods that have a span here."""
        return frozenset(_decode(data).pod for data in self._ring)

    def answer(self, query: SpanQuery, epoch: int) -> RawBatch:
        """Return the next spans after the query's position, of one pod or of all."""
        after = query.after if query.epoch == epoch and query.after <= self.recorded else 0
        first = max(after, self.dropped)
        selects = query.pod or query.text
        end = self.recorded if selects else min(self.recorded, first + self._batch)
        spans = list(islice(self._ring, first - self.dropped, end - self.dropped))
        if query.pod:
            # the uid comes first: one byte of an array's head, then the text
            head = _encode(Span(query.pod, "", 0, 0))[: len(_encode(query.pod)) + 1]
            spans = [raw for raw in spans if raw.startswith(head)]
        if query.text:
            text = query.text.encode(errors="replace")
            spans = [raw for raw in spans if text in raw]
        spans = spans[-self._batch :]
        return RawBatch(epoch, end, first - after, end < self.recorded, tuple(map(msgspec.Raw, spans)))


RECORDER = SpanRecorder()
"""The process's own; a forked actor begins with an empty one."""


def record(pod: str, name: str, began: int, ended: int = 0, actor: str = "", /, **attributes: object) -> None:
    """Record a span from `began` to `ended` (default now), both by `clock`; nothing where no pod is known.

    The pod is given by uid; empty: that of the block of `span` around the call.
    """
    around, parent = _block.get()
    if pod := pod or around:
        parent = parent if pod == around else 0
        ended = ended or clock()
        began = min(began, ended)  # a span that would end before its start becomes a moment
        _add(Span(pod, _short(name), began, ended - began, _texts(attributes), actor, _next_id(), parent))


class span:
    """Record the time that a block takes; an exception that leaves it becomes the attribute `error`.

    Example:
        with span(uid, "sandbox", attempt=0) as sandbox:
            sandbox.attributes["id"] = await run()
    """

    __slots__ = ("_began", "_id", "_name", "_parent", "_token", "attributes", "pod")

    def __init__(self, pod: str, name: str, /, **attributes: object) -> None:
        around, parent = _block.get()
        self.pod, self._name, self.attributes = pod or around, name, attributes
        self._parent = parent if self.pod == around else 0
        self._id = _next_id()

    def __enter__(self) -> Self:
        if COUNTER.counts and self.pod:
            COUNTER.begin(self.pod, self._name, self.attributes)
        self._began = clock()
        self._token: Token[tuple[str, int]] = _block.set((self.pod, self._id))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            _block.reset(self._token)
        except ValueError:  # closed from another context: a coroutine that nobody awaits any more
            return
        if error is not None:
            self.attributes["error"] = str(error) or type(error).__name__
        if self.pod:
            name, texts, duration = _short(self._name), _texts(self.attributes), clock() - self._began
            _add(Span(self.pod, name, self._began, duration, texts, "", self._id, self._parent))


def call_begins(name: str, peer: str) -> None:
    """Count a call of a plugin or driver as a step, unless the span of a pod around it does."""
    if COUNTER.counts and not _block.get()[0]:
        COUNTER.begin("", name, {"resource": peer})


def _add(span: Span) -> None:
    if len(span.pod) > LONGEST:
        return  # of a manifest or a runtime: the API's uids are short
    try:
        RECORDER.add(span)
    except UnicodeEncodeError:  # a path that is no UTF-8, in an error
        texts = {key: encodable(text) for key, text in span.attributes.items()}
        RECORDER.add(structs.replace(span, attributes=texts))


def _texts(attributes: dict[str, object]) -> dict[str, str]:
    return {key: _short(str(value)) for key, value in attributes.items()}


def _next_id() -> int:
    global _ids
    if _ids is None:
        _ids = count(int.from_bytes(os.urandom(7), "big") + 1)
    return next(_ids)


def serve_spans(bus: Bus, recorder: SpanRecorder = RECORDER) -> None:
    """Answer queries for spans on a bus, and orders of tests to count steps."""

    async def spans(query: SpanQuery, call: Call) -> RawBatch:
        return recorder.answer(query, bus.epoch)

    async def steps(order: StepOrder, call: Call) -> StepList:
        if order.count:
            COUNTER.start(recorder.pods(), order.stop_at)
        step_list = COUNTER.found()
        if order.count is False:
            COUNTER.end()
        return step_list

    bus.serve(SPANS, SpanQuery, spans)
    bus.serve(STEPS, StepOrder, steps)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + MARK
