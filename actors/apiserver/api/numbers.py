"""Numbers and durations in a query string, refused in the words of Go, which clients know."""

import re
from collections.abc import Mapping

import msgspec

from actors.apiserver.api.errors.answers import BadRequest

INT64_MAX = 2**63 - 1
MOST_DIGITS = 19
"""Of a number that can fit: longer ones are not even read."""
LONGEST_DURATION = 64
UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"[+-]?({_PART.pattern})+", re.ASCII)
_SIGNED, _UNSIGNED = re.compile(r"[+-]?\d+", re.ASCII), re.compile(r"\d+", re.ASCII)


def integer(text: str) -> int:
    """Raises BadRequest in the words of Go."""
    if not _SIGNED.fullmatch(text):
        raise BadRequest(f"strconv.ParseInt: parsing {_quoted(text)}: invalid syntax")
    if len(text.lstrip("+-0")) > MOST_DIGITS or not -INT64_MAX - 1 <= int(text) <= INT64_MAX:
        raise BadRequest(f"strconv.ParseInt: parsing {_quoted(text)}: value out of range")
    return int(text)


def resource_version(text: str) -> int | None:
    """A resourceVersion parameter; empty = None. Raises BadRequest."""
    if not text:
        return None
    fault = "" if _UNSIGNED.fullmatch(text) else "invalid syntax"
    if not fault and (len(text.lstrip("0")) > MOST_DIGITS or int(text) > INT64_MAX):
        fault = "value out of range"
    if fault:
        value = f"{_quoted(text)}: strconv.ParseUint: parsing {_quoted(text)}: {fault}"
        raise BadRequest(f"invalid resource version: resourceVersion: Invalid value: {value}")
    return int(text)


def request_seconds(query: Mapping[str, str], most: float) -> float:
    """How long the client is willing to wait for its answer, `most` at most. Raises BadRequest."""
    text = query.get("timeout", "")
    if not text:
        return most
    seconds = _duration(text)
    if seconds is None:
        raise BadRequest(f"invalid timeout specified in the request URL - time: invalid duration {_quoted(text)}")
    return seconds if 0 < seconds < most else most


def _duration(text: str) -> float | None:
    """Go's way to write one: `1m30s`, `1.5h`, `0`."""
    if text in ("0", "+0", "-0"):
        return 0.0
    if len(text) > LONGEST_DURATION or not _DURATION.fullmatch(text):
        return None
    seconds = sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))
    return -seconds if text.startswith("-") else seconds


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
