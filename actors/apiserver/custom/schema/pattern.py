"""Regular expressions in the time RE2 takes: proportional to text and pattern, whatever both hold.

Schemas come from clients, and one backtracking match would stop the whole process. The pattern is read by Python's own
parser and run as an automaton whose states are made as they are met.
"""

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from protocols.errors import NodeplaneError

_parser: Any = importlib.import_module("re._parser")
MAX_STATES = 5000
"""Of one pattern, repetitions written out: more is refused, as RE2 refuses it."""
MAX_CACHED = 2000
CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7F", "blank": "\\t ", "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
DIGITS, SPACES = frozenset("0123456789"), frozenset(" \t\n\r\f\v")
WORDS = frozenset("0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
Test = Callable[[str], bool]


class PatternInvalid(NodeplaneError):
    """Raised for what is no pattern of RE2, or is too large for one."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class _State(NamedTuple):
    """`test` None: passed without a character, if `at` (begin, end, word, no-word) holds."""

    test: Test | None
    at: str
    next: list[int]


class Pattern:
    """Raises PatternInvalid."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._states: list[_State] = []
        try:
            tree = _parser.parse(_python(text), re.ASCII)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternInvalid(f"error parsing regexp: {error}") from None
        self._accept = self._add(None, "", [])
        self._start = self._sequence(tree, self._accept, bool(tree.state.flags & re.IGNORECASE))
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere, as RE2's MatchString."""
        current: frozenset[int] = frozenset()
        before = ""
        for at, char in enumerate(text):
            current = self._closed(current | {self._start}, before, char, at == 0, False)
            if self._accept in current:
                return True
            current = self._moved(current, char)
            before = char
        return self._accept in self._closed(current | {self._start}, before, "", not text, True)

    def _moved(self, states: frozenset[int], char: str) -> frozenset[int]:
        key = (states, char)
        found = self._moves.get(key)
        if found is None:
            reached = [s.next for s in map(self._states.__getitem__, states) if s.test is not None and s.test(char)]
            if len(self._moves) >= MAX_CACHED:
                self._moves.clear()
            found = self._moves[key] = frozenset(state for states in reached for state in states)
        return found

    def _closed(self, states: frozenset[int], before: str, after: str, begin: bool, end: bool) -> frozenset[int]:
        """With all that is reached without a character, between `before` and `after`."""
        seen, ahead = set[int](), list(states)
        border = (before in WORDS and before != "") != (after in WORDS and after != "")
        holds = {"": True, "begin": begin, "end": end, "word": border, "no-word": not border}
        while ahead:
            number = ahead.pop()
            if number in seen:
                continue
            seen.add(number)
            state = self._states[number]
            if state.test is None and holds[state.at]:
                ahead += state.next
        return frozenset(seen)

    def _add(self, test: Test | None, at: str, next: list[int]) -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternInvalid("error parsing regexp: expression too large")
        self._states.append(_State(test, at, next))
        return len(self._states) - 1

    def _sequence(self, tree: Any, then: int, fold: bool) -> int:
        """The state that starts this; it goes on to `then`."""
        for code, argument in reversed(list(tree)):
            then = self._piece(str(code), argument, then, fold)
        return then

    def _piece(self, code: str, argument: Any, then: int, fold: bool) -> int:
        if code in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(argument, then, fold)
        if code == "BRANCH":
            return self._add(None, "", [self._sequence(branch, then, fold) for branch in argument[1]])
        if code == "SUBPATTERN":
            _, added, removed, tree = argument
            fold = (fold or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
            return self._sequence(tree, then, fold)
        if code == "AT":
            return self._add(None, _place(str(argument)), [then])
        return self._add(_test(code, argument, fold), "", [then])

    def _repeat(self, argument: Any, then: int, fold: bool) -> int:
        least, most, tree = argument
        if str(most) == "MAXREPEAT":
            loop = self._add(None, "", [then])
            self._states[loop].next.append(self._sequence(tree, loop, fold))
            then = loop
        else:
            for _ in range(most - least):
                then = self._add(None, "", [then, self._sequence(tree, then, fold)])
        for _ in range(least):
            then = self._sequence(tree, then, fold)
        return then


def _place(name: str) -> str:
    places = {"AT_BEGINNING": "begin", "AT_BEGINNING_STRING": "begin", "AT_END": "end", "AT_END_STRING": "end"}
    places |= {"AT_BOUNDARY": "word", "AT_NON_BOUNDARY": "no-word"}
    return places[name]


def _test(code: str, argument: Any, fold: bool) -> Test:
    if code == "ANY":
        return lambda char: char != "\n"
    if code in ("LITERAL", "NOT_LITERAL"):
        wanted = {chr(argument)} if not fold else {chr(argument).lower(), chr(argument).upper()}
        return (lambda char: char in wanted) if code == "LITERAL" else (lambda char: char not in wanted)
    if code == "IN":
        return _set(argument, fold)
    raise PatternInvalid(f"error parsing regexp: invalid or unsupported Perl syntax: {code.lower()}")


def _set(items: Any, fold: bool) -> Test:
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    tests = [_member(str(code), argument) for code, argument in items if str(code) != "NEGATE"]

    def test(char: str) -> bool:
        chars = (char.lower(), char.upper()) if fold else (char,)
        return any(each(one) for each in tests for one in chars) is not negated

    return test


def _member(code: str, argument: Any) -> Test:
    if code == "LITERAL":
        return lambda char: len(char) == 1 and ord(char) == argument
    if code == "RANGE":
        low, high = argument
        return lambda char: len(char) == 1 and low <= ord(char) <= high
    name = str(argument).removeprefix("CATEGORY_").lower()
    members = {"digit": DIGITS, "space": SPACES, "word": WORDS}[name.removeprefix("not_")]
    inside = not name.startswith("not_")
    return lambda char: (char in members) is inside


@functools.lru_cache(maxsize=256)
def _python(text: str) -> str:
    """RE2's spellings that Python does not know: POSIX classes, and the end of the text."""
    text = re.sub(r"\[:(\w+):\]", lambda found: CLASSES.get(found[1], found[0]), text)
    return re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", text)
