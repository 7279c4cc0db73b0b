"""Output for users: tables, colours and progress on a terminal, plain text anywhere else.

rich is imported only where it is used, on a terminal: it would double the start time of most commands. Output that is
piped is plain and stable, since scripts read it.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

GOOD, PENDING, BAD = "green", "yellow", "bold red"
STYLES = {
    **dict.fromkeys(("live", "ready", "serves", "connected", "healthy", "yes"), GOOD),
    **dict.fromkeys(("starting", "waiting", "backoff", "stopping", "silent", "replaced", "unknown"), PENDING),
    **dict.fromkeys(("failed", "hung", "unhealthy", "gone", "no"), BAD),
}
"""Styles of cells that are a state, in lower case."""


class Table(NamedTuple):
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        return table(self.header, self.rows)


def show(*parts: Table | str) -> None:
    """Print tables and texts with a blank line between them."""
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


def _show_table(console: "Console", part: Table) -> None:
    from rich import table as rich_table
    from rich.text import Text

    shown = rich_table.Table(box=None, pad_edge=False, header_style="bold")
    for name in part.header:
        shown.add_column(Text(name), overflow="fold")
    for row in part.rows:
        shown.add_row(*(Text(cell, style=STYLES.get(cell.lower(), "")) for cell in row))
    console.print(shown)


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
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return left-aligned columns, two blanks apart; the last one is not padded."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    )


def duration(seconds: float) -> str:
    """Format as `12.3s`, `4m10s`, `3h5m` or `2d4h`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes}m{int(seconds) % 60}s"
    return f"{hours}h{minutes % 60}m" if days < 1 else f"{days}d{hours % 24}h"
