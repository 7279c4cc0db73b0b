"""Messages of the trace of pods, served by every actor: what it recorded about a pod, and when.

Nothing is sent until somebody asks: an actor retains its newest spans in a ring (`protocols/trace/recorder.py`).
"""

import msgspec

SPANS = "spans"
"""RPC SpanQuery -> SpanBatch, served by every actor."""

STEPS = "steps"
"""RPC StepOrder -> StepList, served by every actor."""
MOST_STEPS = 1000
"""Steps that an actor counts for one test."""

RETAINED = 4096
"""Spans that each actor retains; an older one is dropped for each new one."""
RETAINED_BYTES = 1 << 20
"""And their size, should plugins and drivers send long texts."""
BATCH = 2048
"""Most spans of one answer."""

WATCH = "watch"
"""The API server sent a change of the pod to its watches."""
SEEN = "seen"
"""A client of the API received the pod from its watch."""
RUNTIME_EVENT = "runtime event"
"""From the runtime's stamp of a container event to its arrival in cri."""
PASSED_ON = "passed on"
"""From there to pleg."""
POD_EVENT = "pleg event"
"""Pleg found that a container started, died or was removed, and published it."""
RUNTIME_STATUS = "runtime status"
"""podworker received the pod's status in the runtime."""
DEVICE_HEALTH = "device health"
"""From the report of a device's health to the pod's device status; podworker records when it received that."""
STATUS = "status"
"""podworker computed another pod status."""


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step in the life of a pod. Times are of CLOCK_BOOTTIME, which all processes of a machine share."""

    pod: str
    """Uid; the trace id follows from it."""
    name: str
    start_ns: int
    duration_ns: int
    attributes: dict[str, str] = {}
    actor: str = ""
    """Instance that did it; empty: the one that recorded it."""
    id: int = 0
    """64 bits, unique among all processes."""
    parent: int = 0
    """Id of the span of the same process that this one is part of; 0 if there is none."""


class SpanQuery(msgspec.Struct, frozen=True):
    """Request for the spans that ended after a position of the same actor."""

    pod: str = ""
    """Uid; empty: all pods."""
    text: str = ""
    """Only spans that contain this text in a name or an attribute."""
    epoch: int = 0
    """Epoch of the answer that `after` comes from."""
    after: int = 0
    """Position of that answer: only later spans."""


class SpanBatch(msgspec.Struct, frozen=True):
    """Answer to SpanQuery, BATCH spans at most."""

    epoch: int
    """Epoch of the actor's bus: positions count within it."""
    position: int
    """Spans recorded up to the last one considered here; the next query's `after`."""
    missed: int = 0
    """Spans after the query's `after` that were dropped from the ring before it came."""
    more: bool = False
    """There are later ones: ask again."""
    spans: tuple[Span, ...] = ()
    """In the order in which they ended."""


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A step of a pod's life, or a call of a plugin or driver outside of one, that began while a test counted."""

    name: str
    label: str
    """Resource, driver or container that distinguishes equal names; may be empty."""
    ordinal: int
    """1 for the first step of this name and label since the count began."""
    began_ns: int = 0
    """CLOCK_BOOTTIME."""


class StepOrder(msgspec.Struct, frozen=True):
    """Request to count the steps of this actor, or to stop it at one: tests kill it exactly there."""

    count: bool | None = None
    """True: count from 1; False: stop counting; None: leave it as it is."""
    stop_at: Step | None = None
    """With `count`: the actor sends itself SIGSTOP when this step begins, before it does anything of it."""


class StepList(msgspec.Struct, frozen=True):
    """Steps that the actor counted."""

    steps: tuple[Step, ...] = ()
    """Steps counted so far, at most MOST_STEPS."""
