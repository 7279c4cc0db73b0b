"""A pod's trace as lines of bars, by the functions that draw `nodeplane trace`."""

from collections.abc import Iterator, Sequence

from protocols.trace import Row
from supervisor.console.drawing.text import BAD, DIM, LIT, TITLE, Line, Part, cut, pad
from supervisor.trace.draw import ERROR, bar, label, length, milliseconds, parts, title

ACTOR_WIDTH, TIME_WIDTH, MOST_STEP, LEAST_BAR = 11, 9, 34, 12


def lines(rows: Sequence[Row], width: int) -> Iterator[Line]:
    """Yield the waterfall, each part below its time and length."""
    for part in parts(rows):
        yield [Part(cut(title(part), width), TITLE)]
        first = part[0].start_ns
        span = max(row.start_ns + row.duration_ns for row in part) - first
        fixed = 2 * TIME_WIDTH + ACTOR_WIDTH + 4
        step = max(12, min(MOST_STEP, width - fixed - LEAST_BAR))
        for row in part:
            yield _row(row, first, span, (step, max(1, width - fixed - step)))


def _row(row: Row, first: int, span: int, widths: tuple[int, int]) -> Line:
    step, room = widths
    begin, took = milliseconds(row.start_ns - first), length(row)
    role = BAD if ERROR in row.attributes else ""
    return [
        Part(f"{begin:>{TIME_WIDTH}} {took:>{TIME_WIDTH}} ", DIM),
        Part(f"{pad(row.actor, ACTOR_WIDTH)} {pad('  ' * row.depth + label(row), step)} ", role),
        Part(cut(bar(row, first, span, room), room), role or LIT),
    ]
