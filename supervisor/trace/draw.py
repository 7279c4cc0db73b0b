"""Draw a waterfall: plain columns for scripts and pipes, bars on a terminal."""

import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from protocols.process.texts import printable
from protocols.trace import Row
from protocols.trace.waterfall import kind_of
from supervisor.base.terminal import Table

if TYPE_CHECKING:
    from rich.text import Text

HEADER = ("START", "DURATION", "ACTOR", "STEP", "ATTRIBUTES")
PAUSE_NS = 3_000_000_000
"""A pause at least this long begins another part of the waterfall, with a scale of its own."""
LABELS = ("type", "resource", "driver", "container", "entry", "object", "phase", "node", "reason")
"""Attributes that stand behind the name of a step."""
LONGEST_LABEL = 40
MIN_BAR = 12
MOMENT, BAR = "│", "█"
PARTS = " ▏▎▍▌▋▊▉"
"""Eighths of a cell."""
COLOURS = {
    "apiserver": "cyan", "scheduler": "magenta", "podworker": "green", "devices": "yellow",
    "pleg": "blue", "cri": "bright_blue", "health": "red", "controllers": "bright_magenta",
}  # fmt: skip
ERROR = "error"
CUT = "earlier steps are lost: a process retains its newest steps, and none when it ends"


def parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield runs of rows between long pauses: a container may die hours after it started."""
    part: list[Row] = []
    end = 0
    for row in rows:
        if part and not row.depth and row.start_ns >= end + PAUSE_NS:
            yield part
            part = []
        part.append(row)
        end = max(end, row.start_ns + row.duration_ns)
    if part:
        yield part


def plain(rows: Sequence[Row]) -> Table:
    """Return a table with all attributes, times since the first row."""
    return Table(HEADER, [_cells(row, rows[0].start_ns) for row in rows])


def _cells(row: Row, first_ns: int) -> tuple[str, ...]:
    attributes = " ".join(f"{key}={value}" for key, value in row.attributes.items())
    return (milliseconds(row.start_ns - first_ns), length(row), row.actor, "  " * row.depth + row.name, attributes)


def title(rows: Sequence[Row], pod: str = "") -> str:
    """Return the pod, the wall-clock time and the length of a part; safe to show."""
    began = datetime.datetime.fromtimestamp(rows[0].time_ns / 1e9).astimezone()
    end = max(row.start_ns + row.duration_ns for row in rows) - rows[0].start_ns
    text = f"{began.isoformat(sep=' ', timespec='milliseconds')}, {milliseconds(end)}"
    return f"{printable(pod)}  {text}" if pod else text


def is_cut(rows: Sequence[Row]) -> bool:
    """Return True if a pod's first step, its creation, is no longer known."""
    return not any(row.name == "create" and "apiserver" in row.actor for row in rows)


def milliseconds(nanoseconds: int) -> str:
    """Return a time as `0.52 ms`, `104 ms` or `3.20 s`."""
    value = nanoseconds / 1e6
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"


def length(row: Row) -> str:
    """Return a span's duration in milliseconds; empty for a moment."""
    return milliseconds(row.duration_ns) if row.duration_ns else ""


def label(row: Row) -> str:
    """Return the name of a step with the attributes that distinguish it; safe to show."""
    words = [row.attributes[key] for key in LABELS if row.attributes.get(key)]
    text = " ".join([row.name, *(word.removeprefix("CONTAINER_").removesuffix("_EVENT") for word in words)])
    text = printable(text)
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def bar(row: Row, first_ns: int, span_ns: int, width: int) -> str:
    """Return a row's bar in a column of `width` cells that stands for `span_ns`."""
    begin = min(width - 1, (row.start_ns - first_ns) * width // max(1, span_ns))
    eighths = min((width - begin) * 8, row.duration_ns * width * 8 // max(1, span_ns))
    return " " * begin + (BAR * (eighths // 8) + PARTS[eighths % 8].strip() or MOMENT)


def draw(rows: Sequence[Row], width: int) -> "list[Text]":
    """Return the lines of one part for a terminal of `width` cells."""
    from rich.text import Text

    first = rows[0].start_ns
    span = max(row.start_ns + row.duration_ns for row in rows) - first
    names = ["  " * row.depth + label(row) for row in rows]
    actors = max(len(row.actor) for row in rows)
    fixed = 9 + 1 + 9 + 1 + actors + 1
    steps = min(max(map(len, names)), max(16, width - fixed - MIN_BAR - 1))
    room = max(MIN_BAR, width - fixed - steps - 1)
    lines = []
    for row, name in zip(rows, names, strict=True):
        line = Text(f"{milliseconds(row.start_ns - first):>9} {length(row):>9} ", no_wrap=True, overflow="crop")
        line.append(f"{row.actor:<{actors}} ", style=_colour(row))
        line.append(f"{name[:steps]:<{steps}} ", style="bold red" if ERROR in row.attributes else "")
        line.append(bar(row, first, span, room), style="red" if ERROR in row.attributes else _colour(row))
        lines.append(line)
        if ERROR in row.attributes:
            lines.append(Text(" " * fixed + printable(row.attributes[ERROR]), style="red", overflow="fold"))
    return lines


def line(row: Row) -> str:
    """Return one step as a line of text, safe to show, with its wall-clock time."""
    at = datetime.datetime.fromtimestamp(row.time_ns / 1e9).astimezone().isoformat(sep=" ", timespec="milliseconds")
    attributes = " ".join(f"{key}={value}" for key, value in row.attributes.items())
    return printable(f"{at}  {length(row):>8}  {row.actor:<12}  {row.name}  {attributes}".rstrip())


def _colour(row: Row) -> str:
    return COLOURS.get(kind_of(row.actor), "white")
