"""Timeline: rates and latencies that matter, last 15 minutes, in the memory of the console."""

from typing import ClassVar

from textual.app import ComposeResult

from supervisor.console.drawing.text import LIT, Line, Part, number, pad, seconds
from supervisor.console.model.history import plot
from supervisor.console.widgets.frame import Frame, Orders
from supervisor.console.widgets.listing import Listing

TITLE_WIDTH, FIGURE_WIDTH = 18, 9
Values = list[float | None]
Row = tuple[str, str, Values, int, int]
"""Title, unit, values, and which of how many lines of its plot this one is."""


class TimelineScreen(Frame):
    """Screen of plots, each with a scale of its own and as high as fits."""

    TITLE_OF_TAB = "Timeline"
    ABOUT = (
        "One row per rate or latency: its name, the newest value, and 15 minutes of 5 s each, the newest at the "
        "right; a blank is a time without a measurement. Each row has a scale of its own, with its largest value at "
        "the right. Everything is lost when the console ends."
    )
    LISTING = "plots"
    SORTS: ClassVar[Orders] = {
        "by kind": None,
        "name": lambda row: row[0],
        "newest value": lambda row: -(_last(row[2]) or 0.0),
    }
    ORDERED_BY: ClassVar[dict[str, int]] = {"NOW": 2}

    def compose_body(self) -> ComposeResult:
        yield Listing(id=self.LISTING, reverse=False)

    def refresh_body(self) -> None:
        rows = self.in_order(row for row in self._series() if self.matches(row[0]))
        lines = max(1, min(3, (self.size.height - 4) // max(1, len(rows))))
        shown = [(title, unit, values, part, lines) for title, unit, values in rows for part in range(lines)]
        header: Line = [Part(f"{pad('', TITLE_WIDTH)} {'NOW':>{FIGURE_WIDTH}}  15 MINUTES, MOST AT THE RIGHT")]
        self.listing.show(header, shown, lambda row: (row[0], row[3]), _line)

    def _series(self) -> list[tuple[str, str, Values]]:
        """Return title, unit and values of each plot."""
        world, now = self.world, self.world.now()
        house, pleg = world.house, world.pleg
        named = [("CPU", "%", house.cpu), ("memory (PSS)", "M", house.memory), ("bus messages", "/s", house.messages)]
        named += [(title, "/s", series) for title, series in world.timeline.rates.items()]
        named += [("relists", "/s", pleg.relist_rate)]
        named += [(title, "s", series) for title, series in world.timeline.latencies.items()]
        plots = [(title, unit, series.values(now)) for title, unit, series in named]
        return [*plots, ("event→status p99", "s", pleg.latency.values(0.99, now))]


def _line(row: Row, width: int) -> Line:
    title, unit, values, part, lines = row
    columns = max(10, width - TITLE_WIDTH - 2 * FIGURE_WIDTH - 4)
    bars = plot(values, columns, lines)[part]
    top = max((value for value in values if value is not None), default=None)
    last = part == lines - 1
    left = f"{pad(title, TITLE_WIDTH)} {_figure(_last(values), unit):>{FIGURE_WIDTH}}" if last else ""
    right = _figure(top, unit) if part == 0 else ""
    return [Part(pad(left, TITLE_WIDTH + FIGURE_WIDTH + 2)), Part(bars, LIT), Part(f" {right}")]


def _last(values: Values) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return seconds(value) if unit == "s" else f"{number(value)}{unit}"
