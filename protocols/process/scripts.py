"""Scripts of simulators: the types that every script shares, and reading a YAML file into a struct.

A simulator derives its steps from `ScriptStep` and declares a frozen msgspec struct for the whole script; an example is
plugin/script.py. Unknown keys and wrong values are errors of one line that names the place.
"""

import difflib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from protocols.errors import SettingsInvalid
from protocols.process.files import read_input


class ScriptInvalid(SettingsInvalid):
    """Raised before anything is played when a script cannot be read; the text names the place and the valid values."""


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
        match = _DURATION.fullmatch(value if isinstance(value, str) else "")
        if match:
            seconds = float(match[1]) * _UNITS[match[2]]
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = float(value)
        else:
            raise ValueError(f"{value!r} is no time; write 5s, 300ms or 2m")
        if not 0 <= seconds <= LONGEST_S or math.isnan(seconds):
            raise ValueError(f"{value!r} is no time between 0 and a week")
        return cls(seconds)


class ScriptStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step at a time of the script; simulators derive their steps from it."""

    at: Seconds
    """Time since the first registration."""
    exit: int | None = None
    """End the process with this code."""


class CallFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that calls meet before they are answered; the default is no fault."""

    delay: Seconds = Seconds(0)
    hang: bool = False
    """The call is not answered until another fault is set."""
    error: str = ""
    """Message of the failure; empty = no failure."""
    code: str = "INTERNAL"
    """gRPC code of the failure."""
    times: int = 0
    """Number of calls that meet the fault; 0 = all until another fault is set, in a sequence one."""
    crash: bool = False
    """The program dies in the call: all connections close and the socket files stay."""
    restart: Seconds = Seconds(0)
    """It serves and registers again this long after it died in the call; 0 = never."""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is no gRPC code; there are {', '.join(CODES)}")
        if self.times < 0:
            raise ValueError("times must be 0 (all calls) or more")
        if self.restart and not self.crash:
            raise ValueError("restart goes with crash")


CallFaults = CallFault | tuple[CallFault, ...]
"""The fault of all calls of a method, or a sequence: one for each call (or for `times` calls), then none."""


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The status with which a stream ends."""

    error: str
    code: str = "INTERNAL"

    def __post_init__(self) -> None:
        CallFault(error=self.error, code=self.code)  # or raises ValueError


S = TypeVar("S", bound=msgspec.Struct)
MAX_SCRIPT_BYTES = 1 << 20


def read_script(path: Path, kind: type[S], most_bytes: int = MAX_SCRIPT_BYTES) -> S:
    """Read a script, from standard input for `-`. Raises ScriptInvalid, one line that names the place."""
    try:
        raw = read_input(path)
    except OSError as error:
        raise ScriptInvalid(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > most_bytes:
        raise ScriptInvalid(f"{path} is longer than {most_bytes} bytes")
    return parse_script(path.name, raw, kind)


def parse_script(name: str, raw: bytes, kind: type[S]) -> S:
    """Read a script from bytes; `name` stands in errors. Raises ScriptInvalid."""
    import yaml  # slow to load, and few commands read scripts

    from protocols.kube.yaml_text import read_yaml

    try:
        document = read_yaml(raw, MAX_SCRIPT_BYTES)
    except yaml.YAMLError as error:
        raise ScriptInvalid(f"{name} is no YAML: {' '.join(str(error).split())}") from None
    if document.repeated:
        raise ScriptInvalid(f"{name}: {document.repeated[0]}")
    try:
        return msgspec.convert(document.value, kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise ScriptInvalid(f"{name}: {_plain(error, kind)}") from None


def _read(kind: type, value: object) -> Any:
    if kind is Seconds:
        return Seconds.read(value)
    raise NotImplementedError(f"no way to read {kind.__name__}")


def _plain(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> str:
    """Reword an error of msgspec for users, `$.steps[2].at` as `steps[2].at`, and name the word they may have meant."""
    text, _, place = str(error).partition(" - at ")
    for theirs, plain in PLAIN.items():
        text = text.replace(theirs, plain)
    place = place.replace("$.", "").replace("$", "").replace("`", "")
    said = _UNKNOWN.fullmatch(text)
    near = difflib.get_close_matches(said[1], [*_words(inspect.type_info(kind))], n=1) if said else ()
    return f"{text}{f' at {place}' if place else ''}{f'; did you mean {near[0]}?' if near else ''}"


PLAIN = {
    "Object contains unknown field": "unknown key",
    "Object missing required field": "needs",
    "Invalid enum value": "unknown word",
    "Expected `object`, got `null`": "it is empty",
    "`object`": "keys",
    "`array`": "a list",
    "`str`": "a text",
    "`int | array`": "a number or a list",
}
"""Words of msgspec, and those of a user of YAML."""
_UNKNOWN = re.compile(r"unknown (?:key|word) [`'](.*)[`']")


def _words(found: inspect.Type) -> Iterator[str]:
    """Yield the keys and the fixed words that a script of this type may hold."""
    match found:
        case inspect.StructType(fields=fields):
            for field in fields:
                yield field.encode_name
                yield from _words(field.type)
        case inspect.LiteralType(values=values):
            yield from map(str, values)
        case inspect.DictType(key_type=key, value_type=value):
            yield from _words(key)
            yield from _words(value)
        case inspect.UnionType(types=types):
            for member in types:
                yield from _words(member)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from _words(item)
