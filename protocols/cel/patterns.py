"""What it costs to compile a regular expression, which the engine does each time it is asked: RE2 never goes back, but
classes of Unicode and counted repetitions make programs of megabytes out of a few characters."""

import re

from protocols.cel.sizes import FAR

_COUNT = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")
_TABLE = re.compile(r"\\[pP]")
_WIDE = re.compile(r"\\[DSWX]|\[\^|\[\[:\^|\(\?[a-zA-Z]*i|[^\x00-\x7f]|\.")
WIDE = 100
"""A class that most of Unicode is in."""
TABLE = 20_000
"""A class that is looked up in Unicode's tables."""
FREE = 1000
"""Patterns up to here cost what upstream says: by their length, at the place where they are used."""


LARGEST = 6_000_000
"""What the engine compiles before it refuses a pattern as too large takes no longer than so many units."""


def pattern_cost(pattern: str | None) -> int:
    """In units; a pattern that is no literal may be as large as the engine lets any be."""
    if pattern is None:
        return LARGEST
    size = len(pattern) + WIDE * len(_WIDE.findall(pattern)) + TABLE * len(_TABLE.findall(pattern))
    for match in _COUNT.finditer(pattern):
        size = min(FAR, size * max(1, int(match[1]), int(match[2] or 0)))
    return max(0, size - FREE)
