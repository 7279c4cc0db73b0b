"""Reading a script: YAML into the struct its user has made for it. Pure but for the file."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from supervisor.scripted.errors import ScriptInvalid
from supervisor.scripted.types import Seconds

S = TypeVar("S", bound=msgspec.Struct)
LONGEST = 1 << 20
"""Bytes of a script."""


def read_script(path: Path, kind: type[S]) -> S:
    """Raises ScriptInvalid, one line that names the place."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ScriptInvalid(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > LONGEST:
        raise ScriptInvalid(f"{path} is longer than {LONGEST} bytes")
    return parse_script(path.name, raw, kind)


def parse_script(name: str, raw: bytes, kind: type[S]) -> S:
    import yaml  # slow to load, and few commands read scripts

    try:
        found = yaml.load(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ScriptInvalid(f"{name} is no YAML: {' '.join(str(error).split())}") from None
    try:
        return msgspec.convert(found, kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise ScriptInvalid(f"{name}: {_plain(error)}") from None


def _read(kind: type, value: object) -> Any:
    if kind is Seconds:
        return Seconds.read(value)
    raise NotImplementedError(f"no way to read {kind.__name__}")


def _plain(error: msgspec.ValidationError) -> str:
    """`$.steps[2].at` says more to people without its dollar."""
    text, _, place = str(error).partition(" - at ")
    for theirs, plain in (("Object contains unknown field", "unknown key"), ("Object missing required field", "needs")):
        text = text.replace(theirs, plain)
    place = place.replace("$.", "").replace("$", "").replace("`", "")
    return f"{text} at {place}" if place else text
