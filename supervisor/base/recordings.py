"""Open a recording at a time that a user names."""

import time
from datetime import datetime
from pathlib import Path

from protocols.kube.errors import TimeInvalid
from protocols.kube.times import format_micro, parse_time
from protocols.recording.frames import RecordingInvalid
from protocols.recording.reader import Recording
from supervisor.base.errors import UsageError

DAY_MS = 86_400_000


def opened(path: str) -> Recording:
    """Open a recording. Raises UsageError."""
    try:
        return Recording(Path(path))
    except RecordingInvalid as error:
        raise UsageError(f"--replay {path}: {error}") from None
    except OSError as error:
        raise UsageError(f"--replay {path}: {error.strerror}") from None


def time_in(recording: Recording, text: str) -> int:
    """Return the time that --at names, in ms; its end for an empty one. Raises UsageError.

    It is HH:MM:SS of the local clock, a time of RFC 3339, or +SECONDS since the begin.
    """
    if not text:
        return recording.end_ms
    at = _parsed(text, recording.begin_ms)
    if not recording.begin_ms - 1_000 <= at <= recording.end_ms + 1_000:
        begin, end = (format_micro(at_ms / 1_000) for at_ms in (recording.begin_ms, recording.end_ms))
        raise UsageError(f"--at {text}: the recording lasts from {begin} to {end}")
    return at


def _parsed(text: str, begin_ms: int) -> int:
    try:
        if text.startswith("+"):
            return begin_ms + int(float(text[1:]) * 1_000)
        if "T" in text.upper():
            return int(parse_time(text.upper()) * 1_000)
        clock = time.strptime(text, "%H:%M:%S")
    except (ValueError, OverflowError, TimeInvalid):
        raise UsageError(f"--at {text!r} is no time; give HH:MM:SS, 2026-01-02T15:04:05Z, or +SECONDS") from None
    day = datetime.fromtimestamp(begin_ms / 1_000)
    at = day.replace(hour=clock.tm_hour, minute=clock.tm_min, second=min(clock.tm_sec, 59), microsecond=999_000)
    moment = int(at.timestamp() * 1_000)
    return moment if moment >= begin_ms else moment + DAY_MS
