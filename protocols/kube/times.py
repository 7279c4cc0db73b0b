"""RFC 3339 times as the API writes them: seconds for Time, microseconds for MicroTime, always UTC with a Z."""

import datetime
import re
import time
from functools import lru_cache

from protocols.kube.errors import TimeInvalid

UTC = datetime.UTC
UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
"""A duration as Go writes it: `1h2m3.5s`, `-300ms`, `0`."""
_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def now() -> str:
    """Return the current time as a metav1.Time: whole seconds."""
    return format_time(time.time())


def now_micro() -> str:
    """Return the current time as a metav1.MicroTime: microseconds (leases, events.k8s.io)."""
    return format_micro(time.time())


def format_time(seconds: float) -> str:
    """Return seconds since the epoch as a Time; fractions are cut off, as upstream does."""
    return _of_second(int(seconds // 1))


@lru_cache(maxsize=16)
def _of_second(second: int) -> str:
    return datetime.datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro(seconds: float) -> str:
    """Return seconds since the epoch as a MicroTime."""
    return datetime.datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def format_ns(nanoseconds: int) -> str:
    """Return a time_ns() value as a Time; 0 becomes the empty string (unset)."""
    return format_time(nanoseconds // 1_000_000_000) if nanoseconds else ""


def format_duration(seconds: float) -> str:
    """Return a duration as Go prints it, to milliseconds: 890ms, 27.88s, 1m20s, 1h0m0s."""
    if 0 < seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{round(rest, 3):g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def duration_ns(text: str) -> int:
    """Return the nanoseconds of a duration in Go's form; raises ValueError. Callers bound the length and the value."""
    if DURATION.fullmatch(text) is None:
        raise ValueError(f"not a duration: {text!r}; write it like 1m30s or 250ms")
    nanos = 0
    for whole, fraction, unit in _PART.findall(text):
        nanos += int(whole or "0") * UNIT_NS[unit] + int(fraction or "0") * UNIT_NS[unit] // 10 ** len(fraction)
    return -nanos if text.startswith("-") else nanos


def parse_time(text: str) -> float:
    """Return the seconds since the epoch of an RFC 3339 time; raises TimeInvalid."""
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except (ValueError, TypeError):
        parsed = None
    if parsed is None or parsed.tzinfo is None or "T" not in text.upper():
        raise TimeInvalid(f"not an RFC 3339 time: {text!r}; write it as 2026-01-31T12:00:00Z")
    return parsed.timestamp()


def time_or(value: object, otherwise: float = 0.0) -> float:
    """Return the seconds of a time; `otherwise` for none, and for one that cannot be read."""
    try:
        return parse_time(value) if isinstance(value, str) else otherwise
    except TimeInvalid:
        return otherwise
