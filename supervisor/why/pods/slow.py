"""The longest part of a pod's start in its trace: a step, or a gap in which no process recorded a step. Pure."""

from collections.abc import Sequence

from protocols.trace import Row

LAST_STEP = "start container"


def start_of(steps: Sequence[Row]) -> tuple[int, int] | None:
    """Return begin and end, in ns of the trace, of a pod's start: from its creation to its first container's start.

    None where the trace does not hold both.
    """
    created = [row.start_ns for row in steps if row.name == "create" and "apiserver" in row.actor]
    started = [row.start_ns + row.duration_ns for row in steps if row.name == LAST_STEP]
    return (created[0], min(started)) if created and started else None


def slowest(steps: Sequence[Row]) -> tuple[str, int]:
    """Return name and length in ns of the longest part of the start; ("", 0) where it is not known."""
    window = start_of(steps)
    if window is None:
        return "", 0
    leaves = _leaves(steps, window)
    parts = [(row.duration_ns, f"step {_name(row)}") for row in leaves]
    return max((*_gaps(leaves, window), *parts), key=lambda part: part[0])[::-1]


def _leaves(steps: Sequence[Row], window: tuple[int, int]) -> list[Row]:
    """Return the steps of the start that have no step in them, by start."""
    last = len(steps) - 1
    leaves = [row for at, row in enumerate(steps) if at == last or steps[at + 1].depth <= row.depth]
    return sorted((row for row in leaves if window[0] <= row.start_ns < window[1]), key=lambda row: row.start_ns)


def _gaps(leaves: Sequence[Row], window: tuple[int, int]) -> list[tuple[int, str]]:
    """Return the times that no leaf covers, each named by the steps around it."""
    found, end, before = [], window[0], "its creation"
    for row in leaves:
        if row.start_ns > end:
            found.append((row.start_ns - end, f"nothing between {before} and {_name(row)}"))
        if row.start_ns + row.duration_ns >= end:
            end, before = row.start_ns + row.duration_ns, _name(row)
    return found


def _name(row: Row) -> str:
    detail = next(
        (row.attributes[key] for key in ("resource", "driver", "object", "container") if key in row.attributes), ""
    )
    return f"{row.name!r} of {row.actor}" + (f" ({detail})" if detail else "")
