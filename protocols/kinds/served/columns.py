"""Table cells shared by resources: names and ages."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from protocols.kinds.served.row import Column
from protocols.kube.meta import Object
from protocols.kube.objects import text

NONE = "<none>"
UNKNOWN = "<unknown>"
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def seconds_since(stamp: str) -> float | None:
    """Return seconds since an API time; None if it is no time."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return time.time() - (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def short_duration(seconds: float) -> str:
    """Format a duration as kubectl shows ages: `45s`, `5m10s`, `3h`, `2d4h`."""
    s = int(seconds)
    if s < -1:
        return "<invalid>"
    s = max(0, s)
    if s < 2 * MINUTE:
        return f"{s}s"
    if s < 10 * MINUTE:
        return _pair(s, MINUTE, "m", 1, "s")
    if s < 3 * HOUR:
        return f"{s // MINUTE}m"
    if s < 8 * HOUR:
        return _pair(s, HOUR, "h", MINUTE, "m")
    if s < 2 * DAY:
        return f"{s // HOUR}h"
    if s < 8 * DAY:
        return _pair(s, DAY, "d", HOUR, "h")
    if s < 2 * YEAR:
        return f"{s // DAY}d"
    return _pair(s, YEAR, "y", DAY, "d") if s < 8 * YEAR else f"{s // YEAR}y"


def _pair(s: int, major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    rest = s % major // minor
    return f"{s // major}{major_unit}" + (f"{rest}{minor_unit}" if rest else "")


def age_of(stamp: str) -> str:
    """Return the time since an API time as kubectl writes it, `<unknown>` if it is no time."""
    seconds = seconds_since(stamp)
    return UNKNOWN if seconds is None else short_duration(seconds)


def name(obj: Object) -> str:
    """Return the value of column NAME: metadata.name."""
    return text(obj, "metadata", "name")


def age(obj: Object) -> str:
    """Return the value of column AGE: the time since creationTimestamp."""
    return age_of(text(obj, "metadata", "creationTimestamp"))


def cell(*path: str, missing: str = "") -> Callable[[Object], str]:
    """Return a column function: the text at a path, `missing` where there is none."""
    return lambda obj: text(obj, *path) or missing


def field(*path: str) -> Callable[[Object], str]:
    """Return a field function for selectors: the text at a path, empty where there is none."""
    return lambda obj: text(obj, *path)


NAME = Column("Name", name, format="name", description="Name must be unique within a namespace.")
AGE = Column("Age", age, description="Time since the object was created.")
CREATED = Column("Created At", cell("metadata", "creationTimestamp"), type="date")
