"""PLEG: mode and why, events against relists, the last lifecycle events, and the latency from event to status."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import Static

from supervisor.console.drawing.text import BAD, DIM, LIT, TITLE, Line, Part, age, cut, number, pad, role_of, seconds
from supervisor.console.model.history import plot
from supervisor.console.model.pleg import Seen
from supervisor.console.widgets.frame import Frame, Orders
from supervisor.console.widgets.style import text_of

PLOT_LINES = 3
SWITCHES_SHOWN = 3


class PlegScreen(Frame):
    """Screen of pleg; a row is a lifecycle event with its pod, gone or not."""

    TITLE_OF_TAB = "Pleg"
    ABOUT = (
        "How the node learns what its containers do: evented (the runtime streams events), hint, or generic "
        "(it is asked again and again). Relists are inspections of everything; missed events were found by them. "
        "The plot: seconds from a lifecycle event to the pod's new status in the API's watch, last 15 minutes."
    )
    LISTING = "lifecycle"
    SORTS: ClassVar[Orders] = {
        "newest": None,
        "oldest": None,
        "pod": lambda row: row[1],
    }
    ORDERED_BY: ClassVar[dict[str, int]] = {"AGE": 0, "POD": 2}

    def compose_body(self) -> ComposeResult:
        yield Static(id="pleg-head")
        yield from super().compose_body()

    def refresh_body(self) -> None:
        self.query_one("#pleg-head", Static).update(text_of(self._head()))
        living = self.world.pods.items.values() if self.world.pleg.events else ()
        names = {**self.world.pleg.deleted, **{pod.uid: pod.key for pod in living}}
        rows = [(seen, names.get(seen.event.uid, seen.event.uid)) for seen in self.world.pleg.events]
        rows = self.in_order(row for row in rows if self.matches(row[1], row[0].event.type))
        if self.sort == 0:
            rows.reverse()
        header: Line = [Part(f"{'AGE':<8} {'EVENT':<18} {'CONTAINER':<14} POD")]
        self.listing.show(header, rows, _key, self._line)

    def _head(self) -> list[Line]:
        pleg, width, now = self.world.pleg, self.size.width, self.world.now()
        state = pleg.state
        why = cut(state.why if state.healthy else f"not healthy: {state.message}", width - len(state.mode) - 7)
        events, relists = pleg.event_rate.last(), pleg.relist_rate.last()
        counts = (
            f"events {number(pleg.received)} ({number(events or 0)}/s)  relists {number(pleg.relists)} "
            f"({number(relists or 0)}/s, p50 {seconds(pleg.relist_p50)}, p99 {seconds(pleg.relist_p99)})  "
        )
        missed = Part(f"missed {number(pleg.missed)}", BAD if pleg.missed else "")
        p50, p99 = pleg.latency.quantile(0.5, now), pleg.latency.quantile(0.99, now)
        lines: list[Line] = [
            [Part("mode "), Part(state.mode, role_of(state.mode) or DIM), Part(f"  {why}")],
            [Part(counts), missed],
            self._switches(now, width),
            [Part(f"event → status  p50 {seconds(p50)}  p99 {seconds(p99)}", TITLE), Part("  15 min", DIM)],
        ]
        return lines + self._plot(now, width)

    def _switches(self, now: float, width: int) -> Line:
        switches = list(self.world.pleg.switches)[-SWITCHES_SHOWN:]
        words = "  ".join(f"{switch.mode} {age(now - switch.at)} ago" for switch in reversed(switches))
        return [Part(cut(f"switches: {words or '-'}", width), DIM if len(switches) < 2 else LIT)]

    def _plot(self, now: float, width: int) -> list[Line]:
        high, low = self.world.pleg.latency.values(0.99, now), self.world.pleg.latency.values(0.5, now)
        top = max((value for value in high if value is not None), default=0.0)
        columns = max(10, width - 12)
        lines: list[Line] = [
            [Part(f"{'p99 ' + seconds(top) if number == 0 else '':>11} ", DIM), Part(bars, LIT)]
            for number, bars in enumerate(plot(high, columns, PLOT_LINES - 1, top))
        ]
        return [*lines, [Part(f"{'p50':>11} ", DIM), Part(plot(low, columns, 1, top)[0])]]

    def _line(self, row: tuple[Seen, str], width: int) -> Line:
        seen, pod = row
        since, kind = age(self.world.now() - seen.at), seen.event.type
        role = BAD if kind == "ContainerDied" else "" if kind == "ContainerStarted" else DIM
        return [
            Part(f"{pad(since, 8)} {pad(kind, 18)} {pad(seen.event.id[:12], 14)} {pad(pod, max(1, width - 44))}", role)
        ]


def _key(row: tuple[Seen, str]) -> object:
    return row[0].at, row[0].event.id, row[0].event.type
