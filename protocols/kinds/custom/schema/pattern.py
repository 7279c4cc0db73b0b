"""Schema patterns, matched by RE2: Go's dialect, which upstream schemas are written for, in linear time.

The worst case is text length times program size, so their product is bounded as well. Compiled patterns are cached;
clients choose their size, so the cache is bounded in bytes.
"""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from protocols.errors import NodeplaneError
from protocols.kinds.check.budget import BudgetSpent, spend

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
ENTRY_BYTES = 200
"""Overhead of an entry beside its key and value."""


class Lru(Generic[K, V]):
    """A thread-safe LRU cache; concurrent callers may compute a value twice."""

    def __init__(self, most: int, size: Callable[[K, V], int]) -> None:
        """Hold at most `most` bytes; entries whose `size` exceeds a quarter of that are not cached."""
        self._most, self._size = most, size
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            entry = self._held.get(key)
            if entry is None:
                return None
            self._held.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V) -> None:
        size = self._size(key, value) + ENTRY_BYTES
        with self._lock:
            self._drop(key)
            if size > self._most // 4:
                return
            self._held[key] = (value, size)
            self.bytes += size
            while self.bytes > self._most:
                self._drop(next(iter(self._held)))

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the cached value, or compute and cache it."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def __len__(self) -> int:
        return len(self._held)

    def _drop(self, key: K) -> None:
        gone = self._held.pop(key, None)
        if gone is not None:
            self.bytes -= gone[1]


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


class PatternInvalid(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Raised when a pattern is not in RE2's syntax or too large for it."""


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
        program = compiled(self.text)
        data = text.encode(errors="replace")
        steps = len(data) * program.programsize
        if program.programsize > USUAL_INSTRUCTIONS and steps > MATCH_STEPS:
            raise BudgetSpent
        spend(steps // STEPS_PER_UNIT)
        return program.search(data) is not None


def compiled(text: str) -> Any:
    """Return the compiled pattern. Raises PatternInvalid, BudgetSpent."""
    return _compiled.get_or_make(text, lambda: _compile(text))


def _compile(text: str) -> Any:
    engine = _engine()
    if len(text) * INSTRUCTION_BYTES > PROGRAM_BYTES:
        raise PatternInvalid("error parsing regexp: expression too large")
    try:
        program = engine.compile(text, options=_options())
    except (UnicodeEncodeError, engine.error) as error:
        raise PatternInvalid(f"error parsing regexp: {_reason(error)}") from None
    engine.purge()  # the library keeps the last 128, whatever their size
    if r"\C" in text.replace("\\\\", ""):  # half a character: RE2 in C++ has it, Go has not
        raise PatternInvalid(r"error parsing regexp: invalid escape sequence: `\C`")
    spend(program.programsize // INSTRUCTIONS_PER_UNIT)
    return program


def _memory(text: str, program: Any) -> int:
    states = STATES_BYTES if program.programsize <= USUAL_INSTRUCTIONS else PROGRAM_BYTES // 3
    return len(text) + int(program.programsize) * INSTRUCTION_BYTES + states


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
    reason = error.args[0] if len(error.args) == 1 else str(error)
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
