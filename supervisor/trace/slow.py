"""A pod's start in its trace, and the parts that take its time: steps, and gaps without a recorded step. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocols.trace import Row

LAST_STEP, INIT = "start container", "wait for init container"
DETAILS = ("resource", "driver", "object", "container", "waits_for")
"""Attributes of which a step's name is followed by the first."""


class Gap(NamedTuple):
    """A time in which no process recorded a step."""

    length_ns: int
    before: Row | None
    """The step that ended when it began; None = the beginning of the window."""
    after: Row


def start_of(steps: Sequence[Row]) -> tuple[int, int] | None:
    """Return begin and end, in ns of the trace, of a pod's start: from its creation to its first container's start.

    Init containers that others waited for do not count. None where the trace does not hold both, and where the
    container started first: that of a static pod may, before the API has the pod.
    """
    inits = {row.attributes.get("container") for row in steps if row.name == INIT}
    created = [row.start_ns for row in steps if row.name == "create" and "apiserver" in row.actor]
    started = [row.start_ns + row.duration_ns for row in steps
               if row.name == LAST_STEP and row.attributes.get("container") not in inits]  # fmt: skip
    return (created[0], min(started)) if created and started and created[0] < min(started) else None


def slowest(steps: Sequence[Row]) -> tuple[str, int]:
    """Return name and length in ns of the longest part of the start; ("", 0) where it is not known."""
    window = start_of(steps)
    if window is None:
        return "", 0
    leaves = leaves_of(steps, window)
    parts = [(row.duration_ns, f"step {_name_of(row)}") for row in leaves]
    gaps = [(gap.length_ns, gap_name(gap)) for gap in gaps_of(leaves, window[0])]
    return max((*gaps, *parts), key=lambda part: part[0])[::-1]


def leaves_of(steps: Sequence[Row], window: tuple[int, int]) -> list[Row]:
    """Return the steps of a time that have no step in them, by start."""
    last = len(steps) - 1
    leaves = [row for at, row in enumerate(steps) if at == last or steps[at + 1].depth <= row.depth]
    return sorted((row for row in leaves if window[0] <= row.start_ns < window[1]), key=lambda row: row.start_ns)


def gaps_of(leaves: Sequence[Row], begin_ns: int) -> Iterator[Gap]:
    """Yield the times that no leaf covers."""
    end, before = begin_ns, None
    for row in leaves:
        if row.start_ns > end:
            yield Gap(row.start_ns - end, before, row)
        if row.start_ns + row.duration_ns >= end:
            end, before = row.start_ns + row.duration_ns, row


def gap_name(gap: Gap) -> str:
    """Return the words for a time without a recorded step."""
    return f"nothing between {_name_of(gap.before) if gap.before else 'its creation'} and {_name_of(gap.after)}"


def _name_of(row: Row) -> str:
    detail = next((row.attributes[key] for key in DETAILS if key in row.attributes), "")
    return f"{row.name!r} of {row.actor}" + (f" ({detail})" if detail else "")
