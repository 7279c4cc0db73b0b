"""Draw a run as a timeline: a lane for each process, the faults that hit it, then the newest events in words.

The text and the picture have the same lines; the picture is what a terminal would show.
"""

import io
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from protocols.process.texts import printable
from tests.simulation.model import Outcome
from tests.support.svg import self_contained

WIDTH = 120
LATEST = 12
"""Events in words before the promise broke, in what is printed."""
PICTURED = 60
"""The same in the picture."""
KILLED, CUT, PAUSED, STARTED, OTHER, BROKEN = "✕", "≠", "‖", "▶", "·", "▲"
MARKS = {
    "kill": KILLED, "crash": KILLED, "all": KILLED, "power": KILLED, "ended": KILLED,
    "cut": CUT, "oneway": CUT, "pause": PAUSED, "started": STARTED,
}  # fmt: skip
"""By a fault's kind or the first word of an event's text."""
RANK = f"{OTHER}{STARTED}{CUT}{PAUSED}{KILLED}"
"""The mark that a cell shows where several fall into it: the last of these."""
STYLES = {KILLED: "bold red", CUT: "yellow", PAUSED: "magenta", STARTED: "green", OTHER: "dim"}
LEGEND = f"{KILLED} killed  {CUT} cut  {PAUSED} stopped  {STARTED} started  {OTHER} other  {BROKEN} broken"


def text(outcome: Outcome, latest: int | None = LATEST) -> str:
    """Return lines for a terminal or a file; `latest=None` writes all events in words."""
    return "\n".join(line.plain.rstrip() for line in drawn(outcome, latest)) + "\n"


def picture(outcome: Outcome) -> str:
    """Return an SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for line in drawn(outcome, PICTURED):
        console.print(line, overflow="crop", no_wrap=True)
    title = f"simulation {outcome.profile} seed {outcome.seed}"
    return self_contained(console.export_svg(title=title, unique_id="simulation"))


def drawn(outcome: Outcome, latest: int | None) -> Iterator[Text]:
    lanes = _lanes(outcome)
    names = max(map(len, [*lanes, "broken"]))
    room = WIDTH - names - 1
    end = max(outcome.virtual_s, max((fault.at for fault in outcome.faults), default=0.0), 1e-9)
    yield _axis(names, room, end)
    for name, marks in lanes.items():
        yield _lane(f"{name:<{names}} ", marks, room, end)
    at = [each.at for each in outcome.broken if each.at]
    if at:
        cells = [" "] * room
        for each in at:
            cells[_cell(each, room, end)] = BROKEN
        yield Text(f"{'broken':<{names}} {''.join(cells)}", style="bold red")
    yield Text(LEGEND, style="dim")
    yield from _words(outcome, latest, names)


def _lanes(outcome: Outcome) -> dict[str, list[tuple[float, str]]]:
    """Return time and mark of what happened, by process, in the order of first appearance."""
    lanes: dict[str, list[tuple[float, str]]] = {}
    for event in outcome.events:
        lanes.setdefault(printable(event.process), []).append((event.at, _mark(event.text)))
    for fault in outcome.faults:
        lanes.setdefault(printable(fault.target), []).append((fault.at, _mark(fault.kind)))
    return dict(sorted(lanes.items()))


def _mark(words: str) -> str:
    first = words.removeprefix("fault ").partition(" ")[0]
    return MARKS.get(first, OTHER)


def _lane(name: str, marks: Iterable[tuple[float, str]], room: int, end: float) -> Text:
    cells = ["─"] * room
    for at, mark in marks:
        place = _cell(at, room, end)
        if RANK.find(mark) > RANK.find(cells[place]):
            cells[place] = mark
    line = Text(name)
    for cell in cells:
        line.append(cell, style=STYLES.get(cell, "dim"))
    return line


def _cell(at: float, room: int, end: float) -> int:
    return min(room - 1, max(0, int(at * room / end)))


def _axis(names: int, room: int, end: float) -> Text:
    cells = [" "] * room
    for tenth in range(0, 10, 2):
        label = f"{end * tenth / 10:g} s" if end >= 10 else f"{end * tenth / 10:.3g} s"
        begin = tenth * room // 10
        cells[begin : begin + len(label)] = label
    return Text(" " * (names + 1) + "".join(cells[:room]), style="dim")


def _words(outcome: Outcome, latest: int | None, names: int) -> Iterator[Text]:
    """Yield events up to the first broken promise, or up to the end."""
    first = min((each.at for each in outcome.broken if each.at), default=float("inf"))
    events = [event for event in outcome.events if event.at <= first]
    for event in events if latest is None else events[-latest:]:
        line = Text(f"{event.at:11.6f} {printable(event.process):<{names}} ", style="dim")
        line.append(printable(event.text))
        yield line
