"""Text for fixed columns. Every text of a plugin, a pod or a log passes `cut` or `pad`, which escape it."""

import re
import textwrap
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from protocols.process.texts import printable
from supervisor.base.terminal import duration

MAX_TEXT = 1000
"""Characters of one text that are read at all; rows are narrower."""


class Part(NamedTuple):
    """A piece of a line; `role` says what it means, the screens choose its style."""

    text: str
    role: str = ""


Line = list[Part]
GOOD, PENDING, BAD, DIM, LIT, TITLE, CHOSEN = "good", "pending", "bad", "dim", "lit", "title", "chosen"
ROLES = {
    **dict.fromkeys(("live", "ready", "serves", "connected", "healthy", "running", "yes", "evented"), GOOD),
    **dict.fromkeys(
        ("starting", "waiting", "backoff", "stopping", "silent", "replaced", "unknown", "pending"), PENDING
    ),
    **dict.fromkeys(("failed", "hung", "unhealthy", "gone", "no", "stopped", "generic"), BAD),
}
"""Roles of states, in lower case."""


def safe(text: object) -> str:
    """Return a bounded text without control and direction characters."""
    return printable(str(text)[:MAX_TEXT])


def cut(text: object, width: int) -> str:
    """Return a safe text of at most `width` columns."""
    shown = safe(text)
    if width <= 0:
        return ""
    return shown if cell_len(shown) <= width else set_cell_size(shown, width - 1).rstrip() + "…"


def cut_middle(text: object, width: int) -> str:
    """Return a safe text of at most `width` columns; of a GROUP/RESOURCE that is too long, the resource's both ends."""
    shown = safe(text)
    if cell_len(shown) <= width:
        return shown
    shown = shown.rpartition("/")[2]
    tail = max(0, (width - 1) // 2)
    if cell_len(shown) <= width or len(shown) != cell_len(shown):
        return cut(shown, width)
    return shown[: max(0, width - 1 - tail)] + "…" + shown[len(shown) - tail :]


def wrap(text: object, width: int, indent: int = 0) -> list[str]:
    """Return a safe text in lines of at most `width` columns, all but the first one indented."""
    inner = " " * indent
    lines = textwrap.wrap(safe(text), max(indent + 8, width), subsequent_indent=inner, drop_whitespace=True)
    return [cut(line, width) for line in lines] or [""]


def pad(text: object, width: int) -> str:
    """Return a safe text of exactly `width` columns."""
    return set_cell_size(cut(text, width), max(0, width))


def role_of(state: str) -> str:
    """Return the role in which a state of any list is drawn; empty for one that needs no colour."""
    return ROLES.get(state.lower(), "")


def rate(value: float | None) -> str:
    """Return a rate per second, such as `0.2/s`, `12/s` or `3.4k/s`."""
    if value is None:
        return "-"
    return f"{number(value)}/s"


def number(value: float) -> str:
    """Return a number in at most five characters: 0.5, 12, 3.4k, 1.2M."""
    if value < 10:
        return f"{value:.1f}".removesuffix(".0")
    if value < 1000:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 1_000_000 else f"{value / 1_000_000:.1f}M"


def seconds(value: float | None) -> str:
    """Return a latency, such as `3 ms` or `1.20 s`."""
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def age(value: float) -> str:
    """Return a duration in short form; one from the future counts as 0."""
    return duration(max(0.0, value))


def plain(line: Line) -> str:
    """Return the text of a line without roles."""
    return "".join(part.text for part in line)


def word_at(text: str, column: int) -> str:
    """Return the word at a column, or left of the gap there; empty before the first one."""
    starts = (match for match in re.finditer(r"\S+", text) if cell_len(text[: match.start()]) <= column)
    return next((match.group() for match in reversed(list(starts))), "")
