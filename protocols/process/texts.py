"""Texts of others in what people read: logs and terminals. Plugins, drivers, runtimes and clients choose them."""

import logging
import signal
from collections.abc import Sequence
from types import TracebackType


def printable(text: str) -> str:
    """Return a text of one line as it is safe to show: control and direction characters as `\\x1b`, `\\n`, `\\u202e`.

    A newline or an escape sequence in an id or a message must not forge lines.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def signal_name(number: int) -> str:
    """Return such as `SIGKILL`, or `signal 33` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class LineFormatter(logging.Formatter):
    """Write one printable line for each record; the lines of a traceback follow, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).split("\n"))


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` characters; one that is longer ends with `...`."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, separated by commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
