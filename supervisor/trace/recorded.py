"""The trace of a pod in a recording."""

from collections.abc import Collection
from typing import Any

from protocols.messages.trace import Span
from protocols.recording import sources as names
from protocols.recording.frames import convert
from protocols.recording.reader import Recording
from protocols.trace import Collected
from supervisor.trace.collect import PodTrace, trace_of


async def trace_in(recording: Recording, at_ms: int, namespace: str, name: str) -> PodTrace:
    """Return the trace of the newest pod of a name, or of a uid, at a time. Raises UsageError, RecordingInvalid."""
    spans = RecordedSpans(recording, at_ms)
    return await trace_of([spans], namespace, name, spans.offset_ns)


class RecordedSpans:
    """Spans of all nodes until a time, asked as a collector is."""

    def __init__(self, recording: Recording, at_ms: int) -> None:
        self._recording, self._at_ms = recording, at_ms
        last = recording.entries((names.SPANS,), at_ms)
        self.offset_ns = next((offset for _, offset in last), 0)

    async def pod(self, uid: str, skip: Collection[str] = ()) -> Collected:
        return self._found(uid, lambda span: span.pod == uid)

    async def text(self, text: str) -> Collected:
        return self._found(text, lambda span: text in span.name or text in span.attributes.values())

    def _found(self, text: str, matches: Any) -> Collected:
        entries = self._recording.entries((names.SPANS,), self._at_ms, holds=text.encode(errors="replace"))
        spans = (convert(entry.value, Span) for entry, _ in entries)
        return Collected([span for span in spans if matches(span)], 0, ())
