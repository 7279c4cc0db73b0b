"""Collect the trace of one pod from a running plane, all its nodes included."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID

import msgspec

from protocols.bus import Bus, BusOptions
from protocols.messages.trace import Span
from protocols.process.layout import Layout
from protocols.trace import Collected, Collector, Row, run_dirs, wall_offset, waterfall
from supervisor.base.errors import UsageError
from supervisor.client.connection import running

POD = "pod"
"""Attribute with the pod's NAMESPACE/NAME, which creation and the informers record."""
STATIC = "static"
NODE_USER = "system:node:"
FOLLOW_S = 0.5
AT_ONCE = 16
"""Nodes asked at once; one with silent processes takes seconds."""


class SpanSource(Protocol):
    """Returns spans: the collector of a node's processes, or a recording."""

    async def pod(self, uid: str, skip: Collection[str] = ()) -> Collected: ...

    async def text(self, text: str) -> Collected: ...


class PodTrace(msgspec.Struct, frozen=True):
    """All that is known of one pod's life, by time."""

    pod: str
    """NAMESPACE/NAME; the uid if that is all that is known."""
    uids: tuple[str, ...]
    """One; of a static pod also that of its mirror."""
    rows: list[Row]
    silent: tuple[str, ...]
    """Processes that did not answer: what they know is missing."""


async def pod_trace(layout: Layout, namespace: str, name: str) -> PodTrace:
    """Return the trace of the newest pod of a name, or of a uid. Raises NotRunning; UsageError if no process knows it.

    The pod may be deleted: the trace lasts as long as the processes retain its spans.
    """
    async with plane(layout) as collectors:
        return await trace_of(collectors, namespace, name, wall_offset())


async def trace_of(collectors: Sequence[SpanSource], namespace: str, name: str, offset_ns: int) -> PodTrace:
    """Return the trace of the newest pod of a name, or of a uid. Raises UsageError when nothing is known of it."""
    spans, uids, silent = await _known(collectors, namespace, name)
    if not spans:
        raise UsageError(
            f"no process has spans of pod {namespace}/{name}; it may be too old, see `nodeplane trace --help`"
        )
    shown = next((span.attributes[POD] for span in spans if POD in span.attributes), name)
    return PodTrace(shown, uids, waterfall(spans, offset_ns), silent)


async def follow(layout: Layout, namespace: str, name: str) -> AsyncIterator[list[Row]]:
    """Yield the steps of a pod that ended since the last time, by their end. Raises NotRunning.

    A pod that nobody has seen yet is waited for.
    """
    seen: set[tuple[str, int]] = set()
    async with plane(layout) as collectors:
        while True:
            spans: list[Span] = []
            silent: tuple[str, ...] = ()
            with contextlib.suppress(UsageError):
                spans, _, silent = await _known(collectors, namespace, name)
            known = {(span.actor, span.id): span for span in spans}
            new = [known[key] for key in known.keys() - seen]
            seen = seen | known.keys() if silent or not spans else set(known)  # who is silent now may answer again
            new.sort(key=lambda span: span.start_ns + span.duration_ns)
            offset = wall_offset()
            yield [row for span in new for row in waterfall([span], offset)]
            await asyncio.sleep(FOLLOW_S)


async def _known(
    collectors: Sequence[SpanSource], namespace: str, name: str
) -> tuple[list[Span], tuple[str, ...], tuple[str, ...]]:
    """Return the spans of a pod, its uids, and the processes that did not answer; those are asked once."""
    uids, silent = ((name,), ()) if _is_uid(name) else await _uids(collectors, f"{namespace}/{name}")
    spans, silent = await _of_pods(collectors, uids, silent)
    if mirrored := mirror_of(spans) if len(uids) == 1 else "":
        named, silent = await _uids(collectors, mirrored)
        others = tuple(uid for uid in named[1:] if uid not in uids)
        more, silent = await _of_pods(collectors, others, silent)
        return spans + more, uids + others, silent
    return spans, uids, silent


async def _of_pods(
    collectors: Sequence[SpanSource], uids: Iterable[str], silent: tuple[str, ...]
) -> tuple[list[Span], tuple[str, ...]]:
    answers = await ask_nodes(collector.pod(uid, silent) for collector in collectors for uid in uids)
    return [span for collected in answers for span in collected.spans], tuple(sorted({*silent, *_silent_of(answers)}))


async def ask_nodes(asking: Iterable[Awaitable[Collected]]) -> list[Collected]:
    """Return the answers in the order of the questions, of which AT_ONCE are asked at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def answer(awaitable: Awaitable[Collected]) -> Collected:
        async with room:
            return await awaitable

    return await asyncio.gather(*map(answer, asking))


def mirror_of(spans: Iterable[Span]) -> str:
    """Return the name of a pod that a node created to mirror a static pod; empty for other pods."""
    create_spans = (s for s in spans if s.name == "create" and s.attributes.get("user", "").startswith(NODE_USER))
    return next((span.attributes.get(POD, "") for span in create_spans), "")


def _silent_of(found: Iterable[Collected]) -> tuple[str, ...]:
    return tuple(sorted({name for collected in found for name in collected.silent}))


@asynccontextmanager
async def plane(layout: Layout) -> AsyncIterator[list[Collector]]:
    """Connect to the processes of a plane and of its further nodes. Raises NotRunning."""
    running(layout)  # or raises NotRunning
    buses = [(Bus(BusOptions(name="", run_dir=run)), prefix) for run, prefix in run_dirs(layout)]
    try:
        for bus, _ in buses:
            await bus.start()
        yield [Collector(bus, prefix) for bus, prefix in buses]
    finally:
        for bus, _ in buses:
            await bus.close()


async def _uids(collectors: Sequence[SpanSource], pod: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the uid of the newest pod of a name, and that of its manifest if it mirrors a static pod.

    Beside them the processes that did not answer.
    """
    answers = await ask_nodes(collector.text(pod) for collector in collectors)
    named = [span for collected in answers for span in collected.spans if span.attributes.get(POD) == pod]
    if not named:
        raise UsageError(f"no process has seen a pod {pod}; give -n NAMESPACE, or its uid if it was deleted long ago")
    return newest(named), _silent_of(answers)


def newest(named: Iterable[Span]) -> tuple[str, ...]:
    """Return the uids of the newest pod among spans of one name: the API's first, then a manifest's."""
    last: dict[bool, Span] = {}
    for span in sorted(named, key=lambda each: each.start_ns):
        last[span.attributes.get(STATIC) == str(True)] = span
    return tuple(last[static].pod for static in (False, True) if static in last)


def _is_uid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
