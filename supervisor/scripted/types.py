"""The vocabulary of scripts."""

import math
import re

import msgspec

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
CODES = (
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
LONGEST_S = 7 * 24 * 3600.0


class Seconds(float):
    """A time in a script: a number of seconds, or `300ms`, `5s`, `2m`, `1h`."""

    @classmethod
    def read(cls, value: object) -> "Seconds":
        """Raises ValueError."""
        found = _DURATION.fullmatch(value if isinstance(value, str) else "")
        if found:
            seconds = float(found[1]) * _UNITS[found[2]]
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = float(value)
        else:
            raise ValueError(f"{value!r} is no time; write 5s, 300ms or 2m")
        if not 0 <= seconds <= LONGEST_S or math.isnan(seconds):
            raise ValueError(f"{value!r} is no time between 0 and a week")
        return cls(seconds)


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that happens at a time; derive from it."""

    at: Seconds
    """Since the script began: when the stand-in was registered for the first time."""
    exit: int | None = None
    """The process ends with this code."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a call meets before it is answered. With nothing set: nothing."""

    delay: Seconds = Seconds(0)
    hang: bool = False
    """Never answered; ends with the caller's patience or the next fault."""
    error: str = ""
    """Text of the failure."""
    code: str = "INTERNAL"
    """gRPC code of the failure."""
    times: int = 0
    """Calls it is for; 0 = all until another fault is set."""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is no gRPC code; there are {', '.join(CODES)}")
        if self.times < 0:
            raise ValueError("times must be 0 (all calls) or more")
