"""The frame of every screen: tabs above, keys below, a filter, help, and a refresh that draws only changes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Click, ScreenResume
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from supervisor.console.drawing.text import BAD, CHOSEN, DIM, PENDING, Line, Part, age, cut
from supervisor.console.model.world import World
from supervisor.console.widgets.dialogs import Help, keys_of
from supervisor.console.widgets.host import Host
from supervisor.console.widgets.listing import Listing
from supervisor.console.widgets.style import text_of

TABS = ("house", "devices", "pods", "watch", "pleg", "timeline")
"""Modes of the application in the order of their keys."""
MAX_FILTER = 100
T = TypeVar("T")
Orders = Mapping[str, Callable[[Any], Any] | None]
"""Sort keys by the name of their order; None leaves rows as they are."""


class Frame(Screen[None]):
    """A screen over a world. Subclasses compose a body and draw it in `refresh_body`."""

    TITLE_OF_TAB: ClassVar[str] = ""
    ABOUT: ClassVar[str] = ""
    LISTING: ClassVar[str] = ""
    """Id of the listing; empty for a screen without one."""
    CHANGES: ClassVar[tuple[str, ...]] = ()
    """Actions that a read-only console does not have."""
    SORTS: ClassVar[Orders] = {}
    """The orders that `o` goes through."""
    ORDERED_BY: ClassVar[dict[str, int]] = {}
    """Numbers of orders by the word of the header whose click chooses them."""
    AUTO_FOCUS = ""  # the first widget that could have it is the filter
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/", priority=True),  # before the next key is handled
        Binding("o", "sort", "order"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("escape", "back", "back", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.pattern = ""
        self.sort = 0
        self._drawn = -1

    @property
    def host(self) -> Host:
        return cast(Host, self.app)

    @property
    def world(self) -> World:
        return self.host.world

    def compose(self) -> ComposeResult:
        yield Static(id="tabs")
        yield from self.compose_body()
        field = Input(placeholder="filter: words that a row must contain", id="filter", max_length=MAX_FILTER)
        field.display = False
        yield field
        if self.host.slider(0) is not None:
            yield Static(id="slider")
        yield Footer(compact=True, show_command_palette=False)

    def compose_body(self) -> ComposeResult:
        """Yield the widgets between tabs and footer."""
        yield Listing(id=self.LISTING)

    @property
    def listing(self) -> Listing:
        return self.query_one(f"#{self.LISTING}", Listing)

    def refresh_body(self) -> None:
        """Draw the world."""
        raise NotImplementedError

    def refresh_world(self, force: bool = False) -> None:
        """Draw what changed since the last time."""
        if not self.is_mounted or (self._drawn == self.world.version and not force):
            return
        version = self.world.version
        self.query_one("#tabs", Static).update(text_of([self._tabs()]))
        if slider := self.host.slider(self.size.width):
            self.query_one("#slider", Static).update(text_of([slider]))
        self.refresh_body()
        self._drawn = version

    def matches(self, *texts: str) -> bool:
        """Return True if the texts together contain all words of the filter."""
        if not self.pattern:
            return True
        joined = " ".join(texts).lower()
        return all(word in joined for word in self.pattern.split())

    @on(ScreenResume)
    def _resumed(self) -> None:
        self.refresh_world(force=True)

    def on_mount(self) -> None:
        self.set_focus(self.main_widget())
        self.refresh_world(force=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a slash to the filter once it is open; there is none before the screen is composed."""
        if action in self.CHANGES and self.host.read_only:
            return False
        return action != "filter" or [field.display for field in self.query("#filter")] == [False]

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        self.set_focus(field)

    def action_sort(self) -> None:
        if self.SORTS:
            self.sort = (self.sort + 1) % len(self.SORTS)
            self.refresh_world(force=True)

    def in_order(self, rows: Iterable[T]) -> list[T]:
        """Return rows in the chosen order."""
        key = list(self.SORTS.values())[self.sort]
        return sorted(rows, key=key) if key else list(rows)

    @on(Listing.HeaderClicked)
    def _header_clicked(self, event: Listing.HeaderClicked) -> None:
        if event.word in self.ORDERED_BY:
            self.sort = self.ORDERED_BY[event.word]
            self.refresh_world(force=True)

    @on(Listing.RowClicked)
    def _row_clicked(self, event: Listing.RowClicked) -> None:
        self.open_row(event.row, event.column)

    def open_row(self, row: Any, column: int) -> None:
        """Open what was clicked at a column of a row; rows that cannot be opened are only chosen."""

    @on(Click, "#tabs")
    def _tab_clicked(self, event: Click) -> None:
        if name := tab_at(event.x):
            self.app.call_later(self.app.switch_mode, name)

    @on(Click, "#slider")
    def _slider_clicked(self, event: Click) -> None:
        self.host.slide(event.x, self.size.width)

    def action_back(self) -> None:
        """Close the filter, or clear it."""
        field = self.query_one("#filter", Input)
        if field.display:
            self._close_filter()
        if self.pattern:
            field.value = ""

    def action_help(self) -> None:
        self.app.push_screen(Help(self.TITLE_OF_TAB, self.ABOUT, keys_of(self, TABS)))

    @on(Input.Changed, "#filter")
    def _filtered(self, event: Input.Changed) -> None:
        self.pattern = event.value.lower()
        self.refresh_world(force=True)

    @on(Input.Submitted, "#filter")
    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.set_focus(self.main_widget())

    def main_widget(self) -> Widget | None:
        """Return the widget that has the focus outside of the filter; None: the screen itself takes the keys."""
        return self.listing if self.LISTING else None

    def _tabs(self) -> Line:
        line: Line = []
        for number, name in enumerate(TABS, 1):
            role = CHOSEN if name == self.TITLE_OF_TAB.lower() else DIM
            line += [Part(f"{number} "), Part(f"{label_of(name)}  ", role)]
        house = self.world.house
        if self.host.read_only:
            line.append(Part("read-only  ", PENDING))
        order = f"order: {list(self.SORTS)[self.sort]}" if self.sort else ""
        line.append(Part(cut("  ".join(filter(None, (order, self.pattern and f"/{self.pattern}"))), 24)))
        if house.failure:
            line.append(Part(" " + cut(house.failure, max(10, self.size.width - 62)), BAD))
        else:
            line.append(Part(f" up {age(house.uptime_s)}", DIM))
        return line


def label_of(tab: str) -> str:
    """Return the text of a tab."""
    return "PLEG" if tab == "pleg" else tab.title()


def tab_at(column: int) -> str:
    """Return the tab at a column of the first line; empty if none is there."""
    end = 0
    for number, name in enumerate(TABS, 1):
        end += len(f"{number} {label_of(name)}  ")
        if column < end:
            return name
    return ""
