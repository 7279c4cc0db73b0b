"""Questions before an action, and the help of a screen."""

from collections.abc import Iterable
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from supervisor.console.drawing.text import safe

COLUMN = 34
MAX_ANSWER = 1000


class Hint(Static):
    """A key with its meaning, which a click presses."""

    def __init__(self, key: str, meaning: str) -> None:
        super().__init__(Text(f"{key}  {meaning}", style="bold"))
        self._key = key

    def on_click(self) -> None:
        self.app.simulate_key(self._key)


class Question(ModalScreen[bool]):
    """Asks before something is changed; returns True for yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q", "answer(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = safe(question)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(self._question), id="question")
            yield Hint("y", "yes")
            yield Hint("n", "no")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class Prompt(ModalScreen[str]):
    """Asks for a line of text; returns it, empty if the user left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "leave")]

    def __init__(self, question: str, example: str) -> None:
        super().__init__()
        self._question, self._example = safe(question), example

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(self._question), id="question")
            yield Input(placeholder=self._example, id="answer", max_length=MAX_ANSWER)
            yield Hint("escape", "leave")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Help(ModalScreen[None]):
    """Keys of the screen below, and what it shows."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "close")]

    def __init__(self, title: str, about: str, keys: Iterable[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._about, self._keys = title, about, list(keys)

    def compose(self) -> ComposeResult:
        rows = "\n".join(two_columns([f"{key:<10} {meaning}" for key, meaning in self._keys]))
        with Vertical(classes="dialog help"):
            yield Static(Text(self._title, style="bold"))
            yield Static(Text(self._about))
            yield Static(Text(rows), id="keys")

    def on_click(self) -> None:
        self.dismiss()


def keys_of(screen: Screen[Any], tabs: Iterable[str]) -> list[tuple[str, str]]:
    """Return the keys that work on a screen with their meanings, without those that are Textual's own."""
    seen: dict[str, str] = {}
    for active in screen.active_bindings.values():
        name = active.binding.description
        if active.enabled and (name.islower() or name.lower() in tabs):
            seen.setdefault(name, screen.app.get_key_display(active.binding))
    return [(key, name) for name, key in seen.items()]


def two_columns(cells: list[str]) -> list[str]:
    """Return lines with the first half of the cells beside the second: 80 x 24 must hold them."""
    half = (len(cells) + 1) // 2
    right = [*cells[half:], ""]
    return [f"{left:<{COLUMN}}{right[at]}".rstrip() for at, left in enumerate(cells[:half])]
