"""Words and times of a diagnosis. Pure."""

import time
from collections.abc import Iterable

from protocols.process import texts
from supervisor.base.terminal import duration
from supervisor.why.model.types import ApiEvent, Diagnosis

MAX_LINES = 30
"""Lines of evidence shown; the first ones."""
MAX_LINE = 500
EVIDENCE, ADVICE = "  ", "  to do: "


def lines(found: Diagnosis) -> list[str]:
    """Return state and reason, then the evidence, then what to do. The caller makes them printable."""
    evidence = [f"{EVIDENCE}{_cut(line)}" for line in found.evidence[:MAX_LINES]]
    if more := len(found.evidence) - len(evidence):
        evidence.append(f"{EVIDENCE}and {more} more lines; -o json shows all")
    return [headline(found), *evidence, *(f"{ADVICE}{_cut(line)}" for line in found.advice)]


def headline(found: Diagnosis) -> str:
    """Return target, state and reason on one line."""
    return f"{found.target}: {found.state}: {_cut(found.reason)}"


def _cut(text: str) -> str:
    return texts.cut(text, MAX_LINE)


def at(seconds: float) -> str:
    """Return a local time as `12:41:45`."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def span_text(seconds: float) -> str:
    """Return a duration as `0.4 s`, `12.3 s`, `4 min 10 s`, `3 h 5 min` or `2 d 4 h`."""
    return duration(seconds, spaced=True)


def ago(seconds: float, now: float) -> str:
    """Return a time and how long ago it was; 0 is one that nobody reported."""
    if not seconds:
        return "an unknown time"
    return f"{at(seconds)} ({span_text(now - seconds)} ago)"


def event_line(event: ApiEvent) -> str:
    """Return an event as a line of evidence."""
    times = f" ({event.count} times)" if event.count > 1 else ""
    return f"event {at(event.at)} {event.reason}{times}: {event.message}"


def plural(count: int, word: str) -> str:
    """Return `1 word` or `2 words`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def joined(words: Iterable[str]) -> str:
    """Return words with commas between them."""
    return ", ".join(words)
