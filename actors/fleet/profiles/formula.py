"""Formulas in the texts of a profile: `gpu-{i}`, `{i//4}`, `{i%8:03}`, `{node}`. Pure.

`i` is the number of a repeated device, `n` the number of the node in its group, both from 0; `node` is the node's name.
`{{` and `}}` are braces. A formula has whole numbers, + - * // % and parentheses; the divisor is a positive number.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

MAX_FORMULA = 64
"""Characters of a formula, which bound its depth as well."""
NUMBERS, NODE = ("i", "n"), "node"
Values = Mapping[str, int | str]
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}:]*)(?::0(\d))?\}|[{}]", re.ASCII)
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Formula(msgspec.Struct, frozen=True):
    """A parsed expression in braces; `names` are the variables that it reads."""

    tree: ast.expr
    names: frozenset[str]
    width: int
    """Digits of the result, filled with zeros; 0 = as many as it has."""

    def text(self, values: Values) -> str:
        if self.names == {NODE}:
            return str(values[NODE])
        return format(_evaluate(self.tree, values), f"0{self.width}" if self.width else "")


class Pattern(msgspec.Struct, frozen=True, eq=False):
    """A text with formulas, some values of which may be known. It may be the key of a map."""

    parts: tuple[str | Formula, ...]
    names: frozenset[str]
    """Names whose values are still needed."""
    whole: bool = False
    """The result is a whole number, not a text."""
    known: Values = {}

    def bind(self, values: Values) -> "Pattern | str | int":
        known = {**self.known, **values}
        if left := self.names - values.keys():
            return Pattern(self.parts, left, self.whole, known)
        text = "".join(part if isinstance(part, str) else part.text(known) for part in self.parts)
        return int(text) if self.whole else text


def parse(text: str, whole: bool = False) -> Pattern | str:
    """Return the text without its escapes, or a pattern if it has formulas. Raises ValueError."""
    if "{" not in text and "}" not in text:
        return text
    parts = tuple(_parts(text))
    formulas = [part for part in parts if isinstance(part, Formula)]
    if not formulas:
        return "".join(str(part) for part in parts)
    if whole and (len(parts) > 1 or formulas[0].names == {NODE}):
        raise ValueError(f"{text!r:.64} is no number; write one formula of numbers alone")
    return Pattern(parts, frozenset[str]().union(*(formula.names for formula in formulas)), whole)


def escape(text: str) -> str:
    """Return the text that `parse` reads as `text`."""
    return text.replace("{", "{{").replace("}", "}}")


def _parts(text: str) -> Iterator[str | Formula]:
    at = 0
    for match in _TOKEN.finditer(text):
        if match.start() > at:
            yield text[at : match.start()]
        at = match.end()
        if match[0] in ("{{", "}}"):
            yield match[0][0]
        elif match[1] is None:
            raise ValueError(f"{text!r:.64} has a brace of no formula; write {{{{ or }}}} for a brace")
        else:
            yield _formula(match[1].strip(), int(match[2] or 0))
    if at < len(text):
        yield text[at:]


def _formula(text: str, width: int) -> Formula:
    try:
        tree = ast.parse(text[: MAX_FORMULA + 1], mode="eval").body
    except (SyntaxError, ValueError):
        raise _wrong(text) from None
    names = frozenset({NODE}) if text == NODE else frozenset(_names(tree, text))
    if len(text) > MAX_FORMULA or not names:
        raise _wrong(text)
    return Formula(tree, names, width)


def _names(tree: ast.expr, text: str) -> Iterator[str]:
    """Yield the names in a formula. Raises ValueError for anything that is no formula."""
    match tree:
        case ast.Name(id=name) if name in NUMBERS:
            yield name
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            pass
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            if isinstance(op, ast.FloorDiv | ast.Mod) and not (isinstance(right, ast.Constant) and right.value):
                raise _wrong(text)
            yield from _names(left, text)
            yield from _names(right, text)
        case _:
            raise _wrong(text)


def _wrong(text: str) -> ValueError:
    return ValueError(f"{{{text:.64}}} is no formula; write {{i}}, {{i//4}}, {{n%2}} or {{node}}")


def _evaluate(tree: ast.expr, values: Values) -> int:
    match tree:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return int(values[name])
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)](_evaluate(left, values), _evaluate(right, values))
    raise AssertionError("checked when it was parsed")


WHOLE_KEY = "int"
"""Key of the attribute value that is a number, so that its formula gives one."""


def compiled(value: Any, key: str = "") -> Any:
    """Return a JSON value with patterns instead of texts with formulas, in keys of maps as well. Raises ValueError."""
    if isinstance(value, str):
        return parse(value, whole=key == WHOLE_KEY)
    if isinstance(value, dict):
        return {parse(name): compiled(part, name) for name, part in value.items()}
    return [compiled(item) for item in value] if isinstance(value, list | tuple) else value


def bound(value: Any, values: Values) -> Any:
    """Bind the patterns of a compiled value. Parts without patterns are returned as they are, not copied."""
    if isinstance(value, Pattern):
        return value.bind(values)
    if isinstance(value, dict):
        items = {bound(name, values): bound(part, values) for name, part in value.items()}
        is_same = all(map(operator.is_, items.values(), value.values())) and items.keys() == value.keys()
        return value if is_same else items
    if isinstance(value, list):
        each_bound = [bound(item, values) for item in value]
        return value if all(map(operator.is_, each_bound, value)) else each_bound
    return value


def names_in(value: Any) -> frozenset[str]:
    """Return the names that a compiled value still needs."""
    if isinstance(value, Pattern):
        return value.names
    if isinstance(value, dict):
        return frozenset[str]().union(*map(names_in, value), *map(names_in, value.values()))
    return frozenset[str]().union(*map(names_in, value)) if isinstance(value, list) else frozenset()
