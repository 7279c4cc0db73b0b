"""The text of an expression: errors, tokens, limits checked before the native parser sees it, and error messages.

The parser expands macros by copying and cannot be interrupted, so texts that would grow are rejected first.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from protocols.errors import NodeplaneError


class CelError(NodeplaneError, http=422, grpc="INVALID_ARGUMENT"):
    """Base class of this package."""


class CompileError(CelError):
    """Raised when a text is no selector: syntax, types, or a result that is not bool. The text is upstream's detail."""


class TooLong(CompileError):
    """Raised when a text is longer than LIMIT bytes; it is not parsed."""


class TooComplex(CompileError):
    """Raised when the worst case of an expression would cost more than a selector may."""


class EvaluationError(CelError):
    """Raised when a selector cannot be decided for a device.

    It asks for what the device does not have, its result is not bool, or it went over the engine's bound.
    """


_RAW = r"""[bB]?[rR][bB]?(?:\"\"\".*?\"\"\"|\'\'\'.*?\'\'\'|"[^"\n]*"|'[^'\n]*')"""
_ESCAPED = (
    r"""[bB]?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
)
_TOKEN = re.compile(
    rf"(?P<text>{_RAW}|{_ESCAPED})|(?P<gap>//[^\n]*|\s+)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<mark>&&|\|\||[=!<>]=|.)",
    re.DOTALL | re.ASCII,
)
OPENING, CLOSING = "([{", ")]}"


class Token(NamedTuple):
    """A token of an expression, at `start` to `end` in its text."""

    kind: str
    """text, name, number or mark."""
    text: str
    start: int
    end: int


def tokens(source: str) -> list[Token]:
    """Return the tokens without spaces and comments; every text has some, valid or not."""
    return list(_scan(source))


def _scan(source: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or "mark"
        if kind != "gap":
            yield Token(kind, match.group(), match.start(), match.end())


def closing(found: list[Token], at: int) -> int:
    """Index of the bracket that closes the one at `at`; -1 if none does."""
    depth = 0
    for index in range(at, len(found)):
        mark = found[index].text
        if mark in OPENING:
            depth += 1
        elif mark in CLOSING:
            depth -= 1
            if depth == 0:
                return index
    return -1


def arguments(found: list[Token], at: int) -> int:
    """Return the number of arguments between the bracket at `at` and the one that closes it."""
    end = closing(found, at)
    if end <= at + 1:
        return 0
    depth, count = 0, 1
    for token in found[at + 1 : end]:
        depth += (token.text in OPENING) - (token.text in CLOSING)
        count += depth == 0 and token.text == ","
    return count


def check_no_bindings(source: str) -> None:
    """Raise CompileError for `cel.bind`, which upstream has for selectors of devices alone."""
    words = [Token("mark", "", 0, 0), *tokens(source)]
    for before, *call in zip(words, words[1:], words[2:], words[3:], strict=False):
        if before.text != "." and [token.text for token in call] == ["cel", ".", "bind"]:
            fault = pointed(source, call[0].start, "undeclared reference to 'cel' (in container '')")
            raise CompileError(f"compilation failed: {fault}")


LIMIT = 10 * 1024
"""Bytes of a selector."""
DEPTH = 32
"""Nested brackets: the native parser's own bound, with a readable error."""
TOKENS = 3584
"""A run of `!` counts as one, as it is for the parser."""
REPEATED = 4096
"""Tokens after the macros that write their target twice (`optMap`, `optFlatMap`) have done so, one on the other."""
TOO_COMPLEX = "too complex, exceeds cost limit"
SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"
"""Upstream's text for what follows once all expressions of an object or policy have cost too much."""
TOO_DEEP = "expression too deeply nested"
_DOUBLING = ("optMap", "optFlatMap")


def check_length(source: str) -> None:
    """Raise TooLong for an expression of more than LIMIT bytes."""
    if len(source) > LIMIT or len(source.encode("utf-8", "surrogatepass")) > LIMIT:
        raise TooLong(f"may not be more than {LIMIT} bytes")


def check_text(source: str) -> None:
    """Raise CompileError for NUL and lone surrogates, with which the native library cannot deal."""
    if "\0" in source or (not source.isascii() and any("\ud800" <= char <= "\udfff" for char in source)):
        raise CompileError("compilation failed: ERROR: <input>:1:1: a character that no text may have")


def check_tokens(found: list[Token]) -> None:
    """Raise TooComplex or CompileError for tokens that the native parser would expand for minutes or nest too deep."""
    doublings = sum(token.text in _DOUBLING for token in found)
    if doublings and (doublings > LIMIT.bit_length() or len(found) << doublings > REPEATED):
        raise TooComplex(TOO_COMPLEX)
    depth = count = 0
    before = ""
    for token in found:
        count += not (token.text == before == "!")
        before = token.text
        depth += (token.text in OPENING) - (token.text in CLOSING) if token.kind == "mark" else 0
        if depth > DEPTH:
            raise CompileError(f"compilation failed: {TOO_DEEP}: more than {DEPTH} levels")
    if count > TOKENS:
        raise TooComplex(TOO_COMPLEX)


CODE = re.compile(r" \[[A-Z_]+\]$")
STRUCT = re.compile(r" not found in struct '[^']*'")


def compile_text_of(text: str) -> str:
    """Return the native library's message as upstream's: without codes and its own C++ names."""
    code, _, rest = text.partition(": ")
    plain = rest if code.isupper() and code != "ERROR" else text
    deep = "recursion limit exceeded" in plain or "max recursion depth" in plain
    return TOO_DEEP if deep else STRUCT.sub("", CODE.sub("", plain))


def pointed(source: str, at: int, text: str) -> str:
    """Format an error at a character as the engine does."""
    start = source.rfind("\n", 0, at) + 1
    row, column = source.count("\n", 0, at) + 1, at - start
    line = source[start:].partition("\n")[0]
    return f"ERROR: <input>:{row}:{column + 1}: {text}\n | {line}\n | {'.' * column}^"
