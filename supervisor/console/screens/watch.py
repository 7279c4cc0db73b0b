"""Watch: where each resource stands at the store, the watch cache and every API process (KEP-1904)."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.events import ScreenResume, ScreenSuspend
from textual.widgets import Static

from protocols.messages.objects import OWNER
from supervisor.console.drawing.text import BAD, DIM, GOOD, TITLE, Line, Part, age, cut, cut_middle, number, pad
from supervisor.console.model.watch import WatchedResource
from supervisor.console.widgets.frame import Frame, Orders
from supervisor.console.widgets.style import text_of

FIGURES = "{:>8} {:>7} {:>6} {:>5} {:>5} {:>5} {:>5} {:>7}"
HEADER = FIGURES.format("CACHE", "BEHIND", "BOOKM", "OPEN", "ENDED", "RESUM", "LISTS", "WINDOW")
MOST_SERVERS = 8


class WatchScreen(Frame):
    """The screen of resources; metrics of API processes are read only while it is shown."""

    TITLE_OF_TAB = "Watch"
    ABOUT = (
        "CACHE: revision of the watch cache. BEHIND: revisions by which each API process is behind it; - if stale. "
        "BOOKM: time since an event or a progress notice moved it. OPEN: watches now. ENDED, RESUM, LISTS: watches "
        "that ended, watches opened without a list before, and lists, since the console runs. WINDOW: how far back "
        "a watch can resume. Kill an API process on page 1: its watches resume at the others, and LISTS stays."
    )
    LISTING = "resources"
    SORTS: ClassVar[Orders] = {
        "name": lambda row: (not row.name.startswith("core/"), row.name.split("/")),
        "watches": lambda row: (-row.watches.open, row.name),
        "changes": lambda row: (-row.seq, row.name),
    }
    ORDERED_BY: ClassVar[dict[str, int]] = {"RESOURCE": 0, "OPEN": 1, "CACHE": 2}

    def compose_body(self) -> ComposeResult:
        yield Static(id="store-line")
        yield from super().compose_body()

    @on(ScreenResume)
    def _shown(self) -> None:
        self.host.watch_page_shown(True)

    @on(ScreenSuspend)
    def _hidden(self) -> None:
        self.host.watch_page_shown(False)

    def refresh_body(self) -> None:
        model, house = self.world.watch, self.world.house
        rows = self.in_order(row for row in model.rows(house, self.world.now()) if self.matches(row.name))
        self.query_one("#store-line", Static).update(text_of([self._store_line()]))
        header: Line = [Part(f"{pad('RESOURCE', self._name_width())} {HEADER}")]
        self.listing.show(header, rows, lambda row: row.name, self._line)

    def _name_width(self) -> int:
        return max(12, self.size.width - 2 - len(HEADER))

    def _store_line(self) -> Line:
        house = self.world.house
        cache = max((stream.mark for stream in house.owned(OWNER)), default=0)
        servers = sorted(name for name in house.actors if name.startswith("apiserver-"))
        store = max(self.world.watch.store_revision, cache)  # its metrics are older than the heartbeats
        line: Line = [Part(f"store {store or '-'} → watchcache {cache} → ", TITLE)]
        for name in servers[:MOST_SERVERS]:
            actor = house.actors[name]
            line.append(Part(f"{name} {actor.state}  ", BAD if house.red(actor) else GOOD))
        if len(servers) > MOST_SERVERS:
            line.append(Part(f"and {len(servers) - MOST_SERVERS} more"))
        return line

    def _line(self, row: WatchedResource, width: int) -> Line:
        watches = row.watches
        reach = "-" if not watches.window else f">{number(watches.window)}" if row.reach is None else age(row.reach)
        figures = FIGURES.format(
            row.mark,
            cut(",".join(str(replica.behind) if replica.synced else "-" for replica in row.replicas) or "none", 7),
            "-" if row.bookmark_age is None else cut(age(row.bookmark_age), 6),
            watches.open,
            watches.ended,
            watches.resumed,
            watches.relisted,
            cut(reach, 7),
        )
        stale = not row.replicas or any(not replica.synced for replica in row.replicas)
        role = BAD if stale else "" if watches.open or watches.window else DIM
        return [Part(f"{pad(cut_middle(row.name, self._name_width()), self._name_width())} {figures}", role)]
