"""`indexOf` and `lastIndexOf`, of texts and of lists. The engine has those of texts and lets nobody add to a name of
its own: expressions are given to it with other names of the same length, so that it points at the right column."""

from typing import Any

from protocols.cel.errors import CompileError
from protocols.cel.library import INT, STRING, Function
from protocols.cel.lists import ANY_LIST, DYN, VALUES
from protocols.cel.scan import Token

OURS = {"indexOf": "indexOF", "lastIndexOf": "lastIndexOF"}


def renamed(source: str, found: list[Token]) -> str:
    """`found` are its tokens. Raises CompileError for a call of what is ours alone."""
    for at in range(len(found) - 2, -1, -1):
        token = found[at]
        if token.kind != "name" or found[at + 1].text != "(":
            continue
        if token.text in OURS.values():
            raise CompileError(f"compilation failed: undeclared reference to '{token.text}'")
        if token.text in OURS:
            source = source[: token.start] + OURS[token.text] + source[token.end :]
    return source


def as_written(text: str) -> str:
    """What the engine says, in the names people know."""
    for name, ours in OURS.items():
        text = text.replace(ours, name)
    return text


def _in_text(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise ValueError(f"index out of range: {start}")
    return text.find(part, start)


def _last_in_text(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return _from_behind(text, part)
    if not part:
        return start
    if start < 0:
        raise ValueError(f"index out of range: {start}")
    return _from_behind(text[: start + len(part)], part) if start < len(text) else -1


def _from_behind(text: str, part: str) -> int:
    """In linear time, which rfind does not promise."""
    place = text[::-1].find(part[::-1])
    return len(text) - len(part) - place if place >= 0 else -1


def _in_list(values: list[Any], wanted: Any) -> int:
    return next((at for at, value in enumerate(values) if same(value, wanted)), -1)


def _last_in_list(values: list[Any], wanted: Any) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if same(values[at], wanted)), -1)


def same(one: Any, other: Any) -> bool:
    """As CEL compares: numbers with numbers, and true is none."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _functions(wanted: tuple[str, ...]) -> tuple[Function, ...]:
    """`wanted`: types of what is looked for in a list."""
    made = []
    for name, in_text, in_list in (("indexOf", _in_text, _in_list), ("lastIndexOf", _last_in_text, _last_in_list)):
        made.append(Function(OURS[name], f"string_{name}", INT, (STRING, STRING), in_text))
        made.append(Function(OURS[name], f"string_{name}_int", INT, (STRING, STRING, INT), in_text))
        made += [Function(OURS[name], f"list_{name}_{kind}", INT, (ANY_LIST, kind), in_list) for kind in wanted]
    return tuple(made)


CHECKED = _functions((DYN,))
RUN = _functions(VALUES)
"""The engine finds no function for a value of any type by `dyn`."""
