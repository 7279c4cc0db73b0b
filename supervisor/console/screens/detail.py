"""The base of pages about one thing, which are read from the plane while they are open."""

from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import Worker

from supervisor.console.drawing.text import Line
from supervisor.console.widgets.dialogs import Help, keys_of
from supervisor.console.widgets.host import Host
from supervisor.console.widgets.style import text_of

MAX_LINES = 400


class DetailScreen(Screen[None]):
    """A page of lines that is read anew while it is open."""

    KIND: ClassVar[str] = ""
    ABOUT: ClassVar[str] = ""
    READ_S: ClassVar[float] = 3.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", "back"),
        Binding("question_mark", "help", "help", key_display="?"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.whole = False
        """True while one part of the page is shown in full, without the others."""
        self._reading: Worker[None] | None = None

    @property
    def host(self) -> Host:
        return cast(Host, self.app)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="detail-body"):
            yield Static(id="detail-text")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.refresh_world()
        self._read_again()
        self.set_interval(self.READ_S, self._read_next)

    def refresh_world(self, force: bool = False) -> None:
        if self.is_mounted:
            self.query_one("#detail-text", Static).update(text_of(self.lines()[:MAX_LINES]))

    def lines(self) -> list[Line]:
        """Return the page."""
        raise NotImplementedError

    async def read(self) -> None:
        """Read what the page needs beyond the world."""
        raise NotImplementedError

    def action_close(self) -> None:
        if self.whole:
            self.action_whole()
        else:
            self.dismiss()

    def action_whole(self) -> None:
        """Show one part in full, or the overview again."""
        self.whole = not self.whole
        self.show_top()

    def show_top(self) -> None:
        self.refresh_world()
        self.query_one("#detail-body", VerticalScroll).scroll_home(animate=False)

    def action_help(self) -> None:
        self.app.push_screen(Help(self.KIND, self.ABOUT, keys_of(self, ())))

    def _read_next(self) -> None:
        """Read again, unless a reading that takes longer than READ_S is in progress: it would never end."""
        if self._reading is None or self._reading.is_finished:
            self._read_again()

    def _read_again(self) -> None:
        """Read again at once; a reading in progress is given up."""
        self._reading = self.run_worker(self._read(), exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        await self.read()
        self.refresh_world()
