"""What is refused before the native parser sees it: it copies what macros repeat, and cannot be stopped."""

from protocols.cel.errors import CompileError, TooComplex, TooLong
from protocols.cel.scan import CLOSING, OPENING, Token

LIMIT = 10 * 1024
"""Bytes of a selector."""
DEPTH = 32
"""Brackets within brackets: the native parser's own bound, told in words."""
TOKENS = 3584
"""A run of `!` counts as one, as it is for the parser."""
REPEATED = 4096
"""Tokens after the macros that write their target twice (`optMap`, `optFlatMap`) have done so, one on the other."""
TOO_COMPLEX = "too complex, exceeds cost limit"
TOO_DEEP = "expression too deeply nested"
_DOUBLING = ("optMap", "optFlatMap")


def check_length(source: str) -> None:
    if len(source) > LIMIT or len(source.encode("utf-8", "surrogatepass")) > LIMIT:
        raise TooLong(f"may not be more than {LIMIT} bytes")


def check_text(source: str) -> None:
    if "\0" in source or (not source.isascii() and any("\ud800" <= char <= "\udfff" for char in source)):
        raise CompileError("compilation failed: ERROR: <input>:1:1: a character that no text may have")


def check_tokens(found: list[Token]) -> None:
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
