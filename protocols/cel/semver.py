"""Versions as semver.org 2.0.0 has them: order and equality ignore build metadata."""

import functools
import re

_ID = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_STRICT = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(?:-({_ID}(?:\.{_ID})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
MAX = 2**63 - 1

Field = tuple[int, int, str]
Version = tuple[int, int, int, tuple[Field, ...]]
"""Comparable: major, minor, patch, pre-release."""

RELEASE: tuple[Field, ...] = ((2, 0, ""),)
"""Stands for no pre-release: behind all pre-releases."""


LONGEST = 256
"""Characters of a version."""


def parse_version(text: str) -> Version:
    """Strict; raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError(f"invalid semantic version {text[:64]!r}")
    return _parsed(text)


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Version:
    match = _STRICT.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid semantic version {text[:64]!r}")
    numbers = [int(match[part]) for part in (1, 2, 3)]
    if max(numbers) > MAX:
        raise ValueError(f"invalid semantic version {text[:64]!r}: a number is too large")
    return (numbers[0], numbers[1], numbers[2], _fields(match[4]) if match[4] else RELEASE)


def _fields(text: str) -> tuple[Field, ...]:
    """Numbers come before words, and by value."""
    return tuple([(0, int(part), "") if part.isdigit() else (1, 0, part) for part in text.split(".")])


def normalized(text: str) -> str:
    """`v1.2` becomes `1.2.0`, `01.2.3` becomes `1.2.3`; raises ValueError for short versions with a pre-release."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search(r"[-+]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    stripped = [_stripped(part) for part in parts]
    return ".".join(stripped + ["0"] * (3 - len(stripped)))


def _stripped(part: str) -> str:
    """Without leading zeros."""
    rest = part.lstrip("0")
    return rest if rest[:1].isdigit() else "0" + rest if part.startswith("0") else part
