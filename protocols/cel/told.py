"""What the engine says is wrong, in one line and in upstream's words."""

import re

from protocols.cel import limits

CODE = re.compile(r" \[[A-Z_]+\]$")
STRUCT = re.compile(r" not found in struct '[^']*'")
_MISSING = 'Key not found in map : "'
_BUDGET = "Iteration budget exceeded"
_OVERLOAD = "No matching overloads found"
_INDEX = re.compile(r"Index error: index=(-?\d+) size=\d+")


def told(text: str) -> str:
    """Of an evaluation: without the engine's own codes."""
    code, _, rest = text.partition(": ")
    plain = rest if code.isupper() else text
    if plain.startswith(_MISSING):
        plain = f"no such key: {CODE.sub('', plain).removeprefix(_MISSING)[:-1]}"
    if plain.startswith(_BUDGET):
        plain = "operation cancelled: actual cost limit exceeded"
    if plain.startswith(_OVERLOAD):
        plain = f"no such overload{plain.removeprefix(_OVERLOAD)}"
    if (index := _INDEX.match(plain)) is not None:
        plain = f"index out of bounds: {index[1]}"
    return " ".join(CODE.sub("", plain).split())


def told_compile(text: str) -> str:
    code, _, rest = text.partition(": ")
    plain = rest if code.isupper() and code != "ERROR" else text
    deep = "recursion limit exceeded" in plain or "max recursion depth" in plain
    return limits.TOO_DEEP if deep else STRUCT.sub("", CODE.sub("", plain))


def pointed(source: str, at: int, text: str) -> str:
    """As the engine tells of a fault at a character."""
    start = source.rfind("\n", 0, at) + 1
    row, column = source.count("\n", 0, at) + 1, at - start
    line = source[start:].partition("\n")[0]
    return f"ERROR: <input>:{row}:{column + 1}: {text}\n | {line}\n | {'.' * column}^"
