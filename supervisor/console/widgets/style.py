"""Styles of roles. Texts reach the terminal as rich Text or segments, never as markup."""

from rich.style import Style
from rich.text import Text

from supervisor.console.drawing.text import BAD, CHOSEN, DIM, GOOD, LIT, PENDING, TITLE, Line

STYLES = {
    GOOD: Style(color="green"),
    PENDING: Style(color="yellow"),
    BAD: Style(color="red", bold=True),
    DIM: Style(color="bright_black"),
    LIT: Style(color="cyan", bold=True),
    TITLE: Style(bold=True),
    CHOSEN: Style(color="bright_white", bold=True),
}
PLAIN = Style()


def style_of(role: str) -> Style:
    """Return the style of a role; plain for unknown ones."""
    return STYLES.get(role, PLAIN)


def text_of(lines: list[Line]) -> Text:
    """Return lines as styled Text; markup in their content has no effect."""
    shown = Text(no_wrap=True, end="")
    for number, line in enumerate(lines):
        if number:
            shown.append("\n")
        for part in line:
            shown.append(part.text, style_of(part.role))
    return shown
