"""Schema patterns, matched by RE2: Go's dialect, which upstream schemas are written for, in linear time.

The worst case is text length times program size, so their product is bounded as well.
"""

import functools
from typing import Any, ClassVar

from actors.apiserver.api.budget import BudgetSpent, spend
from actors.apiserver.custom.schema.lru import Lru
from protocols.errors import NodeplaneError

PROGRAM_BYTES = 2 * 1024 * 1024
"""Memory limit of one compiled pattern; RE2 gives two thirds to the program, about 87,000 instructions."""
CACHE_BYTES = 32 * 1024 * 1024
"""Memory limit of the pattern cache; evicted patterns are compiled again."""
INSTRUCTION_BYTES = 16
STATES_BYTES = 64 * 1024
"""Typical memory of the DFA states of a common pattern."""
MATCH_STEPS = 700_000_000
"""Limit on text bytes times instructions of one match: at 3 ns each, two seconds."""
USUAL_INSTRUCTIONS = 64
"""Size of a common pattern: below this, any text matches in well under a second."""
STEPS_PER_UNIT, INSTRUCTIONS_PER_UNIT = 300, 1
"""Conversion to budget units; one unit is a microsecond."""


class PatternInvalid(NodeplaneError):
    """Raised when a pattern is not in RE2's syntax or too large for it."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class Pattern:
    """A pattern, compiled lazily: a stored schema may have thousands."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def check(self) -> None:
        """Raises PatternInvalid, BudgetSpent."""
        compiled(self.text)

    def found_in(self, text: str) -> bool:
        """Return True if the pattern matches anywhere in `text`.

        Raises PatternInvalid, or BudgetSpent when the match could exceed the time limit of a request.
        """
        made = compiled(self.text)
        data = text.encode(errors="replace")
        steps = len(data) * made.programsize
        if made.programsize > USUAL_INSTRUCTIONS and steps > MATCH_STEPS:
            raise BudgetSpent
        spend(steps // STEPS_PER_UNIT)
        return made.search(data) is not None


def compiled(text: str) -> Any:
    """Return the compiled pattern. Raises PatternInvalid, BudgetSpent."""
    return _compiled.get_or_make(text, lambda: _compile(text))


def _compile(text: str) -> Any:
    engine = _engine()
    if len(text) * INSTRUCTION_BYTES > PROGRAM_BYTES:
        raise PatternInvalid("error parsing regexp: expression too large")
    try:
        made = engine.compile(text, options=_options())
    except (UnicodeEncodeError, engine.error) as error:
        raise PatternInvalid(f"error parsing regexp: {_reason(error)}") from None
    engine.purge()  # the library keeps the last 128, whatever their size
    if r"\C" in text.replace("\\\\", ""):  # half a character: RE2 in C++ has it, Go has not
        raise PatternInvalid(r"error parsing regexp: invalid escape sequence: `\C`")
    spend(made.programsize // INSTRUCTIONS_PER_UNIT)
    return made


def _memory(text: str, made: Any) -> int:
    states = STATES_BYTES if made.programsize <= USUAL_INSTRUCTIONS else PROGRAM_BYTES // 3
    return len(text) + int(made.programsize) * INSTRUCTION_BYTES + states


_compiled: Lru[str, Any] = Lru(CACHE_BYTES, _memory)


@functools.cache
def _engine() -> Any:
    """Import RE2 lazily: most planes have no patterns."""
    import re2

    return re2


@functools.cache
def _options() -> Any:
    options = _engine().Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PROGRAM_BYTES
    return options


def _reason(error: Exception) -> str:
    found = error.args[0] if len(error.args) == 1 else str(error)
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)
