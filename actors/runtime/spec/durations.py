"""Durations as Go writes them: `1h2m3.5s`, `300ms`."""

import re

from actors.runtime.model.errors import InvalidRequest

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")
LONGEST_NS = 2**63 - 1


def parse_duration(text: str) -> int:
    """Nanoseconds. Raises InvalidRequest for anything that is not a positive duration."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidRequest(f"{text!r} is not a duration; write it like 1m30s or 250ms")
    total = round(sum(float(number) * _UNITS[unit] for number, unit in parts))
    if not 0 < total <= LONGEST_NS:
        raise InvalidRequest(f"duration {text!r} is out of range")
    return total
