"""A selector's text as tokens: what must be known before the native parser sees it, and where it names the maps."""

import re
from collections.abc import Iterator
from typing import NamedTuple

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
    kind: str
    """text, name, number or mark."""
    text: str
    start: int
    end: int


def tokens(source: str) -> list[Token]:
    """Spaces and comments are left out. Every text has tokens, sound or not."""
    return list(_scan(source))


def _scan(source: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or "mark"
        if kind != "gap":
            yield Token(kind, match.group(), match.start(), match.end())


def plain_text(token: Token) -> str | None:
    """What a simple literal says; None for raw, bytes, tripled or escaped ones."""
    text = token.text
    if token.kind != "text" or text[0] not in "\"'" or text[:3] in ('""' + '"', "'''") or "\\" in text:
        return None
    return text[1:-1]


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
