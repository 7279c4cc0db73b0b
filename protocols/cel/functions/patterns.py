"""Regular expressions of RE2, and what reading one costs.

RE2 never backtracks, but Unicode classes and counted repetitions make programs of megabytes out of a few characters.
"""

import functools
import re
from typing import Any

from protocols.cel.text.source import EvaluationError

MEMORY = 1 << 20
"""Bytes of a compiled pattern; reading one takes at most some 30 ms."""
UNITS = 60_000
"""Most that reading a pattern is charged while an expression runs."""
FAR = 1 << 62


def matcher_of(pattern: str) -> Any:
    """Raises EvaluationError."""
    compiled = _compiled(pattern)
    if isinstance(compiled, str):
        raise EvaluationError(compiled)
    return compiled


@functools.lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    """Return a pattern of RE2, or the text of its fault."""
    import re2

    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0] if error.args else b""
        return f"error parsing regexp: {text.decode(errors='replace') if isinstance(text, bytes) else text}"


def is_pattern(text: str) -> bool:
    """Return True if RE2 compiles it within the bounds here."""
    return not isinstance(_compiled(text), str)


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
"""Most units the engine spends on a pattern before it rejects it as too large."""


def pattern_cost(pattern: str | None) -> int:
    """Return the cost of reading a pattern, in units; None is one that is not known before it is evaluated."""
    if pattern is None:
        return LARGEST
    size = len(pattern) + WIDE * len(_WIDE.findall(pattern)) + TABLE * len(_TABLE.findall(pattern))
    for match in _COUNT.finditer(pattern):
        size = min(FAR, size * max(1, int(match[1]), int(match[2] or 0)))
    return max(0, size - FREE)


def is_light(pattern: str | None) -> bool:
    """Return True if reading and running it takes no longer than its price says, which counts its characters."""
    return pattern is not None and "{" not in pattern and pattern_cost(pattern) == 0
