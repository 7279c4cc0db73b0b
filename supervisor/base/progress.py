"""Progress of long work: a bar on a terminal that vanishes at the end; elsewhere a line on standard error now and then.

Lines that stay (`say`) go to standard output either way.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from protocols.process.texts import printable

if TYPE_CHECKING:
    from rich import progress as rich_progress

PLAIN_INTERVAL_S = 10.0
SHOWN = 60
"""Characters of the text beside a bar."""


class Progress(Protocol):
    """Sink for the progress of long work."""

    def at(self, text: str, done: int = 0) -> None:
        """Report what goes on now, and how many steps are done."""

    def say(self, line: str) -> None:
        """Print a line that stays."""


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Progress]:
    """Show progress while the body runs; without `total`, only that it goes on."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        with _reminders(text) as plain:
            yield plain
        return
    from rich import progress as rich_progress

    shown = [rich_progress.SpinnerColumn(), rich_progress.BarColumn(bar_width=20)]
    count = [] if total is None else [rich_progress.MofNCompleteColumn()]
    text_column = rich_progress.TextColumn("{task.description}", markup=False)
    columns = (*shown, *count, rich_progress.TimeElapsedColumn(), text_column)
    with rich_progress.Progress(*columns, transient=True, refresh_per_second=4) as bar:
        yield _Bar(bar, bar.add_task(_short(text), total=total))


def _short(text: str) -> str:
    text = printable(text)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


class _Bar:
    def __init__(self, bar: "rich_progress.Progress", task: "rich_progress.TaskID") -> None:
        self._bar = bar
        self._task = task

    def at(self, text: str, done: int = 0) -> None:
        self._bar.update(self._task, description=_short(text), completed=done)

    def say(self, line: str) -> None:
        self._bar.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


class _Plain:
    def __init__(self, text: str) -> None:
        self.text = text

    def at(self, text: str, done: int = 0) -> None:
        self.text = text

    def say(self, line: str) -> None:
        print(printable(line), flush=True)


@contextmanager
def _reminders(text: str) -> Iterator[_Plain]:
    """Name the work on standard error every PLAIN_INTERVAL_S; nothing for work that is shorter."""
    plain, over, began = _Plain(text), threading.Event(), time.monotonic()

    def remind() -> None:
        while not over.wait(PLAIN_INTERVAL_S):
            print(f"{printable(plain.text)} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)

    thread = threading.Thread(target=remind, name="progress", daemon=True)
    thread.start()
    try:
        yield plain
    finally:
        over.set()
        thread.join()
