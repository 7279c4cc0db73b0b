"""Let `transformMap` and `transformMapEntry` run, whose results the engine checks but cannot make.

In the text that runs, the macro makes a list of entries, and a function of ours makes the map of it:

- `m.transformMap(k, v, e)` becomes `m.transformList(k, v, [dyn(k), dyn(e)]).toMAP()`
- `m.transformMapEntry(k, v, e)` becomes `m.transformList(k, v, dyn(e)).mergedMAP()`

The map passes through Python, which has no uints and would not survive an optional: the check, which sees the user's
text and its types, rejects both. Times and durations in it are rounded to microseconds.
"""

import re
from collections.abc import Iterable

from protocols.cel.text.source import CompileError, Token, check_tokens, closing, tokens

MAKERS = {"transformMap": "toMAP", "transformMapEntry": "mergedMAP"}
"""Functions of ours by the macro whose list they turn into a map."""
_UINT = re.compile(r"\buint\b")
_HELD_OPTIONAL = re.compile(r"(?:list|map)\(.*optional_type")


def makes_maps(source: str) -> bool:
    return "transformMap" in source


def runnable(source: str) -> str:
    """Return the text that runs in place of a checked one."""
    if not makes_maps(source):
        return source
    found = tokens(source)
    puts = [put for at in range(len(found)) for put in _puts(found, at)]
    made, done = [], 0
    for start, end, text in sorted(puts, key=_place):
        made += [source[done:start], text]
        done = end
    return "".join([*made, source[done:]])


def _place(put: tuple[int, int, str]) -> tuple[int, int, bool]:
    """Return the order of a change: what ends one call comes before what ends the call around it."""
    return put[0], put[1], not put[2].startswith(".")


def _puts(found: list[Token], at: int) -> list[tuple[int, int, str]]:
    """Return what replaces parts of the macro at `at`, as (from, to, text); nothing if there is none."""
    maker = MAKERS.get(found[at].text)
    if maker is None or [each.text for each in found[max(0, at - 1) : at + 2 : 2]] != [".", "("]:
        return []
    end = closing(found, at + 1)
    commas = _commas(found, at + 1, end)
    if len(commas) not in (2, 3) or found[at + 2].kind != "name" or commas[0] != at + 3 or commas[-1] + 1 == end:
        return []
    before, behind = ("dyn(", ")") if maker == "mergedMAP" else (f"[dyn({found[at + 2].text}), dyn(", ")]")
    begin, last = found[commas[-1] + 1], found[end]
    return [
        (found[at].start, found[at].end, "transformList"),
        (begin.start, begin.start, before),
        (last.start, last.start, behind),
        (last.end, last.end, f".{maker}()"),
    ]


def _commas(found: list[Token], opening: int, end: int) -> list[int]:
    """Return the places of the commas between the arguments of a call."""
    places, at = [], opening + 1
    while at < end:
        if found[at].text in ("(", "[", "{"):
            at = closing(found, at)
        elif found[at].text == ",":
            places.append(at)
        at += 1
    return places


def check_maps(types: Iterable[str], text: str) -> None:
    """Raise CompileError if a map that the expression makes could not pass through Python.

    `types` are those of all its parts, `text` is the engine's.
    """
    check_tokens(tokens(runnable(text)))
    for kind in types:
        if _UINT.search(kind):
            raise CompileError("compilation failed: transformMap is not supported in an expression with uints")
        if _HELD_OPTIONAL.search(kind):
            raise CompileError("compilation failed: transformMap is not supported beside a list or map of optionals")
