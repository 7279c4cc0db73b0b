"""The life of a pod as spans that every actor records and answers for. See docs/explanation/trace.md."""

from protocols.trace.collector import Collected, Collector, instances, run_dirs
from protocols.trace.recorder import (
    RECORDER,
    SpanRecorder,
    call_begins,
    clock,
    from_wall,
    record,
    serve_spans,
    span,
    wall_offset,
)
from protocols.trace.waterfall import Row, SpanNode, forest, trace_id, waterfall

__all__ = [
    "RECORDER",
    "Collected",
    "Collector",
    "Row",
    "SpanNode",
    "SpanRecorder",
    "call_begins",
    "clock",
    "forest",
    "from_wall",
    "instances",
    "record",
    "run_dirs",
    "serve_spans",
    "span",
    "trace_id",
    "wall_offset",
    "waterfall",
]
