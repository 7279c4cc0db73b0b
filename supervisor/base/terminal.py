"""Output for users: tables, colours and progress on a terminal, plain text anywhere else.

rich is imported only where it is used, on a terminal: it would double the start time of most commands. Output that is
piped is plain and stable, since scripts read it.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from protocols.process.texts import printable

if TYPE_CHECKING:
    from rich.console import Console

GOOD, PENDING, BAD = "green", "yellow", "bold red"
STYLES = {
    **dict.fromkeys(("live", "ready", "serves", "connected", "healthy", "yes", "ok"), GOOD),
    **dict.fromkeys(
        ("starting", "waiting", "backoff", "stopping", "silent", "replaced", "unknown", "limited"), PENDING
    ),
    **dict.fromkeys(("failed", "hung", "unhealthy", "gone", "no", "fails"), BAD),
}
"""Styles of cells that are a state, in lower case."""


CLEAR = "\x1b[H\x1b[2J"


def clear() -> None:
    """Clear the terminal, before what is shown again; a pipe gets one after the other."""
    if sys.stdout.isatty():
        print(CLEAR, end="")


MIN_CLIPPED = 8
WIDEST = 200
"""Characters of the longest cell of a plain table to which the others of its column are padded."""
UNSAFE = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that change what a terminal shows; JSON encoders escape those below U+0020 themselves."""


class Table(NamedTuple):
    """A table; as a string it has plain columns, on a terminal `show` draws it."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    clipped: bool = False
    """On a terminal each row is one line: the last column is cut at the edge."""

    def __str__(self) -> str:
        return table(self.header, self.rows)


def show(*parts: Table | str) -> None:
    """Print tables and texts with a blank line between them. Cells and lines are made printable."""
    parts = tuple(_printable_part(part) for part in parts)
    if not sys.stdout.isatty():
        print("\n\n".join(map(str, parts)), flush=True)
        return
    from rich.console import Console

    console = Console(highlight=False)
    for number, part in enumerate(parts):
        if number:
            console.print()
        if isinstance(part, str):
            console.print(part, markup=False, soft_wrap=True)
        else:
            _show_table(console, part)


def _printable_part(part: Table | str) -> Table | str:
    if isinstance(part, str):
        return "\n".join(map(printable, part.split("\n")))
    return part._replace(rows=[tuple(map(printable, row)) for row in part.rows])


def _show_table(console: "Console", part: Table) -> None:
    from rich import table as rich_table
    from rich.text import Text

    shown = rich_table.Table(box=None, pad_edge=False, header_style="bold")
    for name in part.header:
        shown.add_column(Text(name), overflow="fold")
    for row in part.rows:
        cells = [Text(cell, style=STYLES.get(cell.lower(), "")) for cell in row]
        if part.clipped:
            cells[-1].truncate(_last_width(part, console.width), overflow="ellipsis")
        shown.add_row(*cells)
    console.print(shown)


def _last_width(part: Table, width: int) -> int:
    """Return the columns that the other cells, each with a gap of two, leave to the last one."""
    others = range(len(part.header) - 1)
    used = sum(max(len(row[index]) for row in (part.header, *part.rows)) + 2 for index in others)
    return max(MIN_CLIPPED, width - used)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a spinner on standard error while the body runs, if that is a terminal. The body must not use stdout."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text, refresh_per_second=4):
        yield


def print_json(value: object) -> None:
    """Print a value as indented JSON without control characters."""
    sys.stdout.write(json_text(msgspec.json.format(msgspec.json.encode(value), indent=2)) + "\n")


def json_text(encoded: bytes) -> str:
    """Return JSON whose control and direction characters are escapes: encoders leave those beyond ASCII as they are."""
    text = encoded.decode()
    return text if text.isascii() and "\x7f" not in text else UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return left-aligned columns of printable cells, two blanks apart; the last one is not padded.

    A cell over WIDEST shifts its own row only: plugins choose ids of 1,024 characters, and one of them is no reason to
    pad all rows.
    """
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(len(cell) for cell in column if len(cell) <= WIDEST) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    )


def duration(seconds: float, *, spaced: bool = False) -> str:
    """Format as `12.3s`, `4m10s`, `3h5m` or `2d4h`, spaced as `12.3 s`, `4 min 10 s`, `3 h 5 min` or `2 d 4 h`."""
    seconds = max(0.0, seconds)
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    text = f"{seconds:.1f} s" if seconds < 60 else f"{minutes} m {int(seconds) % 60} s"
    if hours:
        text = f"{days} d {hours % 24} h" if days else f"{hours} h {minutes % 60} m"
    return text.replace(" m", " min") if spaced else text.replace(" ", "")
