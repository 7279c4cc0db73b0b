"""The slider below a replayed screen: the shown time, its place in the recording, and the faults."""

import time
from collections.abc import Iterable

from supervisor.console.drawing.text import BAD, DIM, TITLE, Line, Part

KEYS = "  , . step  [ ] 10 s  < > ends  space plays"


def slider_line(
    times: tuple[int, int, int], faults: Iterable[int], playing: bool, width: int, keys: str = KEYS
) -> Line:
    """Return `16:41:39 ──✗──█──── +42 s of 130 s` and the keys. `times`: begin, end and shown time in ms."""
    begin_ms, end_ms, at_ms = times
    clock = time.strftime("%H:%M:%S", time.localtime(at_ms / 1_000))
    place = f" +{(at_ms - begin_ms) // 1_000} s of {(end_ms - begin_ms) // 1_000} s"
    cells = max(5, width - len(clock) - len(place) - len(keys) - 4)
    marks = {_cell(fault, begin_ms, end_ms, cells) for fault in faults}
    here = _cell(at_ms, begin_ms, end_ms, cells)
    bar = [_part(cell, here, marks) for cell in range(cells)]
    return [Part(f"{'▶' if playing else ' '} {clock} ", TITLE), *bar, Part(place), Part(keys, DIM)]


def time_at(line: Line, begin_ms: int, end_ms: int, column: int) -> int | None:
    """Return the time at a column of a slider's line; None beside its bar, whose cells are parts of one column."""
    cells, cell = len(line) - 3, column - len(line[0].text)
    return begin_ms + (end_ms - begin_ms) * cell // (cells - 1) if 0 <= cell < cells else None


def _cell(at_ms: int, begin_ms: int, end_ms: int, cells: int) -> int:
    return min(cells - 1, max(0, (at_ms - begin_ms) * cells // max(1, end_ms - begin_ms)))


def _part(cell: int, here: int, marks: set[int]) -> Part:
    if cell == here:
        return Part("█", TITLE)
    return Part("✗", BAD) if cell in marks else Part("─", DIM)
