"""Rows that scroll, of which only those that fit are formatted: 10,000 cost what 20 do."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from supervisor.console.drawing.text import TITLE, Line, plain, word_at
from supervisor.console.widgets.style import style_of

REVERSE = Style(reverse=True)


class Listing(ScrollView, can_focus=True):
    """A header and rows. `show` takes the rows, and functions that give a row's identity and its line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "move(-1000000)", "first", show=False),
        Binding("end", "move(1000000)", "last", show=False),
    ]

    class Moved(Message):
        """The cursor is on another row, or on none."""

    class RowClicked(Message):
        """A row was clicked, at a column of it; the cursor is on it."""

        def __init__(self, row: Any, column: int) -> None:
            super().__init__()
            self.row, self.column = row, column

    class HeaderClicked(Message):
        """A word of the header was clicked."""

        def __init__(self, word: str) -> None:
            super().__init__()
            self.word = word

    def __init__(self, *, id: str | None = None, reverse: bool = True) -> None:
        super().__init__(id=id)
        self._reverse = reverse
        self.rows: Sequence[Any] = ()
        self.cursor = 0
        self._header: Line = []
        self._key: Callable[[Any], object] = _id_of
        self._line: Callable[[Any, int], Line] = _no_line

    @property
    def chosen(self) -> Any:
        """The row under the cursor, or None."""
        return self.rows[self.cursor] if self.rows else None

    def show(
        self, header: Line, rows: Sequence[Any], key: Callable[[Any], object], line: Callable[[Any, int], Line]
    ) -> None:
        """Replace the rows; the cursor stays at the first one, else on the same row, if that is left."""
        kept = self._key(self.rows[self.cursor]) if self.rows and self.cursor else None
        same = not self.cursor or (len(rows) > self.cursor and key(rows[self.cursor]) == kept)
        self.rows, self._header, self._key, self._line = rows, header, key, line
        if not same:
            index = next((at for at, row in enumerate(rows) if key(row) == kept), None) if kept is not None else None
            self.cursor = index if index is not None else max(0, min(self.cursor, len(rows) - 1))
            self.call_after_refresh(self.follow)
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        at = y - 1 + self.scroll_offset.y
        if y == 0:
            line, reverse = self._header, False
        elif at < len(self.rows):
            line, reverse = self._line(self.rows[at], width), self._reverse and at == self.cursor
        else:
            line, reverse = [], False
        segments = []
        for part in line:
            style = style_of(part.role or (TITLE if y == 0 else ""))
            segments.append(Segment(part.text, style + REVERSE if reverse else style))
        return Strip(segments).adjust_cell_length(width, REVERSE if reverse else None)

    def action_move(self, rows: int) -> None:
        if self.rows:
            self.cursor = max(0, min(len(self.rows) - 1, self.cursor + rows))
            self.follow()
            self.refresh()
            self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 2))

    def on_click(self, event: Click) -> None:
        at = event.y - 1 + self.scroll_offset.y
        if event.y == 0:
            self.post_message(self.HeaderClicked(word_at(plain(self._header), event.x)))
        elif at < len(self.rows):
            self.action_move(at - self.cursor)
            self.post_message(self.RowClicked(self.rows[at], event.x))

    def follow(self) -> None:
        """Scroll to the cursor."""
        self.scroll_to_region(Region(0, self.cursor, 1, 2), animate=False, force=True)


def _id_of(row: Any) -> object:
    return row


def _no_line(row: Any, width: int) -> Line:
    return []
