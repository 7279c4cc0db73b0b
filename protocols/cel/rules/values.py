"""Convert values of custom resources to what rules on their types expect."""

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, date, datetime
from datetime import time as clock_time
from math import inf
from typing import Any

from protocols.cel.functions.values import Duration, Timestamp
from protocols.cel.rules.cel_type import CelType
from protocols.kube.formats import duration_nanos


def converted(value: Any, cel_type: CelType) -> Any:
    """Convert one value. Text that does not match its format remains a string, so rules on its type fail."""
    if value is None or cel_type.form in ("dyn", "string", "bool"):
        return value
    if cel_type.form in _TEXTS:
        return _read(value, cel_type.form)
    if cel_type.form == "object":
        return {
            escaped_name: converted(value[name], each)
            for name, (escaped_name, each) in cel_type.fields.items()
            if name in value
        }
    if cel_type.item is not None:
        item = cel_type.item
        if cel_type.form == "list":
            return [converted(each, item) for each in value]
        return {name: converted(each, item) for name, each in value.items()}
    return _double(value) if cel_type.form == "double" else int(value)


def _double(value: int | float) -> float:
    """Convert to float; integers out of range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _read(value: str, form: str) -> Any:
    try:
        return _TEXTS[form](value)
    except (ValueError, OverflowError, binascii.Error):
        return value


def _timestamp(value: str) -> Timestamp:
    moment = (
        datetime.fromisoformat(value) if len(value) > 10 else datetime.combine(date.fromisoformat(value), clock_time())
    )
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return Timestamp(((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000)


def _duration(value: str) -> Duration:
    return Duration(duration_nanos(value))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS: dict[str, Callable[[str], Any]] = {"bytes": base64.b64decode, "timestamp": _timestamp, "duration": _duration}
