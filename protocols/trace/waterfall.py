"""Turn spans of many actors into the rows of a waterfall. Pure.

A span is nested below the span of its own process that it was recorded in, or below the call of another actor that
caused it: CALLERS says which calls those are, and the call must enclose it in time. No context travels with calls.
"""

import hashlib
from collections.abc import Collection, Iterable
from uuid import UUID

import msgspec

from protocols.messages.trace import WATCH, Span

STORE = "store"
"""The API server's call of the store: part of whichever request of the same process encloses it."""
CALLERS = {
    ("apiserver", "create binding"): {("scheduler", "bind")},
    ("apiserver", "patch status"): {
        ("podworker", "patch status"),
        ("scheduler", "unschedulable"),
        ("controllers", "publish claims"),
    },
    ("apiserver", "create token"): {("podworker", "token")},
    ("apiserver", "delete"): {("podworker", "delete")},
    ("devices", "allocate"): {("podworker", "admit")},
    ("devices", "checkpoint"): {("podworker", "admit")},
    ("devices", "pre-start"): {("podworker", "sync")},
    ("devices", "prepare claims"): {("podworker", "claims")},
    ("devices", "unprepare claims"): {("podworker", "unprepare claims")},
}
"""Actor and name of a span by those of the calls that cause it."""
CAUSES = frozenset(call for calls in CALLERS.values() for call in calls)


class Row(msgspec.Struct, frozen=True):
    """One bar of a waterfall."""

    name: str
    actor: str
    """Instance, such as `apiserver-0`; `NODE/podworker` on a further node of the plane."""
    start_ns: int
    """Since the first row of the trace, which has 0."""
    duration_ns: int
    """Never negative; 0 for a moment."""
    depth: int
    """0, or one more than the nearest row above that has less."""
    attributes: dict[str, str]
    """Some values come from plugins and drivers: make them printable before a terminal shows them."""
    time_ns: int
    """Wall-clock time of the start, in ns since the epoch."""


class SpanNode(msgspec.Struct, eq=False):
    """A span, its parent and its children in order."""

    span: Span
    parent: "SpanNode | None"
    children: "list[SpanNode]"

    @property
    def end_ns(self) -> int:
        return self.span.start_ns + self.span.duration_ns


def waterfall(spans: Iterable[Span], wall_offset_ns: int = 0) -> list[Row]:
    """Return the rows of a waterfall in the order in which to draw them: a parent, then its children by start.

    Args:
        spans: Of one pod, in any order, with their `actor` set, as `Collector.pod` returns them.
        wall_offset_ns: Added to a span's time for its wall-clock time; `wall_offset()` on the machine of the spans.
    """
    roots = forest(spans)
    first = roots[0].span.start_ns if roots else 0
    rows: list[Row] = []
    stack = [(node, 0) for node in reversed(roots)]
    while stack:
        node, depth = stack.pop()
        it = node.span
        start, time = it.start_ns - first, it.start_ns + wall_offset_ns
        rows.append(Row(it.name, it.actor, start, it.duration_ns, depth, it.attributes, time))
        stack += [(child, depth + 1) for child in reversed(node.children)]
    return rows


def forest(spans: Iterable[Span]) -> list[SpanNode]:
    """Return the spans that have no parent, by start, each with its children."""
    roots: list[SpanNode] = []
    known: dict[tuple[str, int], SpanNode] = {}
    calls: list[SpanNode] = []
    for each in sorted(spans, key=lambda span: (span.start_ns, -span.duration_ns, span.id)):
        calls = [call for call in calls if call.end_ns >= each.start_ns]
        node = SpanNode(each, _around(each, known) or _caller(each, calls), [])
        (node.parent.children if node.parent else roots).append(node)
        known[each.actor, each.id] = node
        if _causes(each):
            calls.append(node)
    return roots


def _around(span: Span, known: dict[tuple[str, int], SpanNode]) -> SpanNode | None:
    """Return the span of the same process that this one was recorded in, unless it ended before."""
    parent = known.get((span.actor, span.parent)) if span.parent else None
    return parent if parent is not None and parent.end_ns >= span.start_ns + span.duration_ns else None


def _caller(span: Span, calls: list[SpanNode]) -> SpanNode | None:
    """Return the shortest open call that encloses this span and causes spans of its name."""
    end_ns = span.start_ns + span.duration_ns
    causes: Collection[tuple[str, str]] = CALLERS.get((kind_of(span.actor), span.name), ())
    for call in reversed(calls):
        it = call.span
        mine = (it.actor == span.actor and span.name == STORE) or (kind_of(it.actor), it.name) in causes
        if mine and call.end_ns >= end_ns:
            return call
    return None


def _causes(span: Span) -> bool:
    """Return True for a call of another actor, or a request of the API server, which calls the store."""
    kind = kind_of(span.actor)
    if kind == "apiserver":
        return span.name not in (STORE, WATCH)
    return (kind, span.name) in CAUSES


def kind_of(instance: str) -> str:
    """Return the actor of an instance: `apiserver` of `apiserver-0`, `pleg` of `node-2/pleg`."""
    return instance.rpartition("/")[2].rstrip("0123456789").removesuffix("-")


def trace_id(pod: str) -> int:
    """Return the 128-bit trace id of a pod: its uid if that is a UUID, else a digest of it."""
    try:
        return UUID(pod).int or 1
    except ValueError:
        return int.from_bytes(hashlib.blake2b(pod.encode(), digest_size=16).digest(), "big")
