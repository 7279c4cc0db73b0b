"""Conversions between types, sizes, and `type`."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from protocols.cel.functions.registry import ANY, define
from protocols.cel.functions.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NANO,
    NOTHING,
    Duration,
    Optional,
    Timestamp,
    TypeName,
    Uint,
    duration_of,
    int_of,
    tenth,
    timestamp_of,
    type_name,
    uint_of,
)
from protocols.cel.text.source import EvaluationError
from protocols.kube.times import DURATION, duration_ns

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(?:(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|(?:inf|infinity))|nan", re.ASCII | re.IGNORECASE
)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,18}))?(Z|[+-](?:[01]\d|2[0-4]):[0-5]\d)", re.ASCII
)
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
LONGEST = 128
"""Characters of a number, time or duration that are read."""
_EPOCH = datetime(1970, 1, 1)


def _quoted(text: str) -> str:
    return '"' + text[:LONGEST] + '"'


def read_timestamp(text: str) -> Timestamp:
    """Raises EvaluationError."""
    match = _TIME.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise EvaluationError(f"invalid timestamp {_quoted(text)}")
    year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
    try:
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        raise EvaluationError(f"invalid timestamp {_quoted(text)}") from None
    zone = match[8]
    shift = 0 if zone == "Z" else (int(zone[1:3]) * 60 + int(zone[4:])) * (60 if zone[0] == "+" else -60)
    whole = int((moment - _EPOCH) / timedelta(seconds=1)) - shift
    return timestamp_of(whole * NANO + int((match[7] or "0")[:9].ljust(9, "0")))


def read_duration(text: str) -> Duration:
    """Read Go's form. Raises EvaluationError."""
    if len(text) > LONGEST or DURATION.fullmatch(text) is None:
        raise EvaluationError(f"time: invalid duration {_quoted(text)}")
    return duration_of(duration_ns(text))


def write_timestamp(value: Timestamp) -> str:
    """Return RFC 3339 in UTC, with as many digits of nanoseconds as it needs."""
    seconds, nanos = divmod(value.nanos, NANO)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.isoformat()}{fraction}Z"


def write_duration(value: Duration) -> str:
    """Return seconds with as many decimals as it needs, `-1.5s`."""
    whole, nanos = divmod(abs(value.nanos), NANO)
    sign = "-" if value.nanos < 0 else ""
    return f"{sign}{whole}{f'.{nanos:09d}'.rstrip('0') if nanos else ''}s"


def write_double(value: float) -> str:
    """Return the shortest text that Go writes for a double."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    mantissa, _, power = f"{Decimal(text):e}".partition("e")
    exponent = int(power)
    if -4 <= exponent < 6:
        return text.removesuffix(".0")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _int_of_double(value: float) -> int:
    if math.isfinite(value) and MIN_INT < value < 2.0**63:
        return int(value)
    raise EvaluationError("integer overflow")


def _uint_of_double(value: float) -> Uint:
    if math.isfinite(value) and 0 <= value < 2.0**64:
        return Uint(int(value))
    raise EvaluationError("unsigned integer overflow")


def _int_of_text(text: str) -> int:
    if _INTEGER.fullmatch(text[:LONGEST]) is None:
        raise EvaluationError(f"strconv.ParseInt: parsing {_quoted(text)}: invalid syntax")
    number = int(text)
    if not MIN_INT <= number <= MAX_INT:
        raise EvaluationError(f"strconv.ParseInt: parsing {_quoted(text)}: value out of range")
    return number


def _uint_of_text(text: str) -> Uint:
    if _INTEGER.fullmatch(text[:LONGEST]) is None or text[0] in "+-":
        raise EvaluationError(f"strconv.ParseUint: parsing {_quoted(text)}: invalid syntax")
    number = int(text)
    if number > MAX_UINT:
        raise EvaluationError(f"strconv.ParseUint: parsing {_quoted(text)}: value out of range")
    return Uint(number)


def _double_of_text(text: str) -> float:
    if len(text) > 1024 or _DOUBLE.fullmatch(text) is None or "_" in text:
        raise EvaluationError(f"strconv.ParseFloat: parsing {_quoted(text)}: invalid syntax")
    return float(text)


def _bool_of_text(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise EvaluationError(f"strconv.ParseBool: parsing {_quoted(text)}: invalid syntax")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _read(size: Any) -> int:
    return max(1, tenth(len(size)))


def _same(value: Any) -> Any:
    return value


def _defined_conversions() -> None:
    define("int", (int,), _same)
    define("int", (Uint,), lambda value: int_of(int(value)))
    define("int", (float,), _int_of_double)
    define("int", (str,), _int_of_text)
    define("int", (Timestamp,), lambda value: value.nanos // NANO)
    define("int", (Duration,), lambda value: value.nanos)
    define("uint", (Uint,), _same)
    define("uint", (int,), uint_of)
    define("uint", (float,), _uint_of_double)
    define("uint", (str,), _uint_of_text)
    define("double", (float,), _same)
    define("double", (int,), float)
    define("double", (Uint,), float)
    define("double", (str,), _double_of_text)
    define("bool", (bool,), _same)
    define("bool", (str,), _bool_of_text)
    define("string", (str,), _same)
    define("string", (int,), str)
    define("string", (Uint,), lambda value: str(int(value)))
    define("string", (float,), write_double)
    define("string", (bool,), lambda value: "true" if value else "false")
    define("string", (bytes,), _text_of_bytes, _read)
    define("string", (Timestamp,), write_timestamp, 4)
    define("string", (Duration,), write_duration, 4)
    define("bytes", (bytes,), _same)
    define("bytes", (str,), str.encode, _read)
    define("timestamp", (Timestamp,), _same)
    define("timestamp", (str,), read_timestamp, 10)
    define("timestamp", (int,), lambda value: timestamp_of(value * NANO))
    define("duration", (Duration,), _same)
    define("duration", (str,), read_duration, 10)
    define("duration", (int,), Duration)
    define("dyn", (ANY,), _same)
    define("type", (ANY,), lambda value: TypeName(type_name(value)))
    for kind in (str, bytes, list, dict):
        define("size", (kind,), len)


def _value(held: Optional) -> Any:
    if not held.has_value:
        raise EvaluationError("optional.none() dereference")
    return held.value


def _of_non_zero(value: Any) -> Optional:
    kind = type(value)
    zero = value is None or (kind in (int, Uint, float, bool, str, bytes, list, dict) and not value)
    return NOTHING if zero or (kind is Duration and value.nanos == 0) else Optional(value)


def _defined_optionals() -> None:
    define("optional.of", (ANY,), Optional)
    define("optional.ofNonZeroValue", (ANY,), _of_non_zero)
    define("optional.none", (), lambda: NOTHING)
    define("hasValue", (Optional,), lambda held: held.has_value)
    define("value", (Optional,), _value)


def _zone(name: str) -> tzinfo:
    """Raises EvaluationError."""
    if name in ("", "UTC"):
        return UTC
    try:
        if (match := re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name, re.ASCII)) is not None:
            offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return timezone(-offset if match[1] == "-" else offset)
        return ZoneInfo(name[:LONGEST])
    except (ValueError, KeyError, OSError):
        raise EvaluationError(f"unknown time zone {name[:LONGEST]}") from None


_CYCLE = timedelta(days=146_097)
"""400 years, after which the calendar repeats."""


def _at(value: Timestamp, zone: str) -> tuple[datetime, int]:
    """Return a time in a zone, and the years to add to it: Python's end with 9999 everywhere."""
    moment = (_EPOCH + timedelta(seconds=value.nanos // NANO)).replace(tzinfo=UTC)
    place = _zone(zone)
    if 1 < moment.year < 9999:
        return moment.astimezone(place), 0
    shift = 1 if moment.year == 1 else -1
    return (moment + shift * _CYCLE).astimezone(place), -400 * shift


_GETTERS: dict[str, Callable[[datetime], int]] = {
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}
_SPANS = {"getHours": 3600 * NANO, "getMinutes": 60 * NANO, "getSeconds": NANO, "getMilliseconds": 10**6}


def _getter(name: str, read: Callable[[datetime], int]) -> None:
    define(name, (Timestamp,), lambda value: read(_at(value, "")[0]), 8)
    define(name, (Timestamp, str), lambda value, zone: read(_at(value, zone)[0]), 20)


def _total(name: str, size: int) -> None:
    define(name, (Duration,), lambda value: abs(value.nanos) // size * (-1 if value.nanos < 0 else 1))


def _year(value: Timestamp, zone: str = "") -> int:
    moment, more = _at(value, zone)
    return moment.year + more


def _milliseconds(value: Timestamp, zone: str = "") -> int:
    _at(value, zone)
    return value.nanos % NANO // 10**6


def _defined_getters() -> None:
    for name, read in _GETTERS.items():
        _getter(name, read)
    for name, size in _SPANS.items():
        _total(name, size)
    for name, body in (("getFullYear", _year), ("getMilliseconds", _milliseconds)):
        define(name, (Timestamp,), body, 8)
        define(name, (Timestamp, str), body, 20)


_defined_conversions()
_defined_optionals()
_defined_getters()
