"""Declarations of metric families: name, help and labels, each once and at the level of a module.

docs/reference/metrics.md is written from them. They are tuples, so that constructors of metrics take them unpacked:
`Counter(*ATTEMPTS, registry=registry)`. Nothing here imports the client library: the supervisor does without it.
"""

from typing import ClassVar, NamedTuple


class _Fields(NamedTuple):
    name: str
    """The name that a page shows, with `_total` where it has that suffix."""
    help: str
    """One full sentence, for readers of the page and of the reference."""
    labels: tuple[str, ...] = ()


class CounterFamily(_Fields):
    """Declaration of a counter; the class is the type that docs/reference/metrics.md shows."""

    __slots__ = ()
    kind: ClassVar[str] = "counter"


class GaugeFamily(_Fields):
    """Declaration of a gauge; the class is the type that docs/reference/metrics.md shows."""

    __slots__ = ()
    kind: ClassVar[str] = "gauge"


class HistogramFamily(_Fields):
    """Declaration of a histogram; its buckets are given where it is made."""

    __slots__ = ()
    kind: ClassVar[str] = "histogram"


Declared = CounterFamily | GaugeFamily | HistogramFamily

TASK_FAILURES = CounterFamily(
    "nodeplane_task_failures_total",
    "Tasks that ended with an unknown exception, by kind; each is a line `task KIND failed` in the log.",
    ("task",),
)
