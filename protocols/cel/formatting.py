"""Check `format` calls whose template and arguments are literals, as upstream does where an expression is created.

The clauses are those of cel-go's ext/formatting.go; what only shows at run time stays with the evaluator.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from protocols.cel.evaluation.tree import Call, ListLiteral, MapLiteral, Node, parts_of, text_of

_CLAUSE = re.compile(r"%(?:(?P<percent>%)|(?P<precision>\.\d*)?(?P<verb>.)?)", re.DOTALL | re.ASCII)
_TEXTS = frozenset(
    ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "null", "dyn")
)
_PRECISION = "error while parsing precision"
Kind = Callable[[Node], str]
"""Returns the checker's name of a node's type."""


class _Verb(NamedTuple):
    kinds: frozenset[str]
    rule: str


_DOUBLES, _INTEGERS = frozenset(("double", "string", "dyn")), frozenset(("int", "uint", "dyn"))
_HEXADECIMAL = _Verb(
    _INTEGERS | {"string", "bytes"}, "only integers, byte buffers, and strings can be formatted as hex"
)
_VERBS: Mapping[str, _Verb] = {
    "d": _Verb(_INTEGERS, "decimal clause can only be used on integers"),
    "f": _Verb(_DOUBLES, "fixed-point clause can only be used on doubles"),
    "e": _Verb(_DOUBLES, "scientific clause can only be used on doubles"),
    "b": _Verb(_INTEGERS | {"bool"}, "only integers and bools can be formatted as binary"),
    "o": _Verb(_INTEGERS, "octal clause can only be used on integers"),
    "x": _HEXADECIMAL,
    "X": _HEXADECIMAL,
    "s": _Verb(
        _TEXTS,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        "and timestamps",
    ),
}


def format_faults(call: Call, kind: Kind) -> Iterator[tuple[int, str]]:
    """Yield the node and the text of the first fault of a call; nothing for other calls and for what is no literal."""
    if call.name != "format" or len(call.parts) != 2:
        return
    template, values = text_of(call.parts[0]), call.parts[1]
    if template is None or not isinstance(values, ListLiteral):
        return
    clauses = [match for match in _CLAUSE.finditer(template) if not match["percent"]]
    for at, clause in enumerate(clauses):
        if (fault := _fault(clause, values.parts[at : at + 1], at, kind)) is not None:
            yield fault[0] or call.id, fault[1]
            return
    if len(values.parts) > len(clauses):
        counts = f"(expected {len(clauses)}, got {len(values.parts)})"
        yield call.id, f"too many arguments supplied to string.format {counts}"


def _fault(clause: re.Match[str], values: tuple[Node, ...], at: int, kind: Kind) -> tuple[int, str] | None:
    """Return the fault of a clause and of its value, the only one of `values`; node 0 stands for the call."""
    precision, verb = clause["precision"], clause["verb"]
    if precision is None and not verb:
        return 0, "unexpected end of string"
    if not values:
        return 0, f"index {at} out of range"
    if (fault := _unreadable(precision, verb)) is not None:
        return 0, f"could not parse formatting clause: {fault}"
    wanted = _VERBS[verb]
    for node in _written(values[0]) if verb == "s" else values:
        found = kind(node).partition("(")[0]
        if found not in wanted.kinds:
            return node.id, f"error during formatting: {wanted.rule}, was given {found}"
    return None


def _unreadable(precision: str | None, verb: str | None) -> str | None:
    if precision is not None and not verb:
        return f"{_PRECISION}: could not find end of precision specifier"
    if precision == ".":
        return f'{_PRECISION}: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    return None if verb in _VERBS else f'unrecognized formatting clause "{verb}"'


def _written(node: Node) -> Iterator[Node]:
    """Yield a value and, of literals, all that is in it."""
    inner = parts_of(node) if isinstance(node, ListLiteral | MapLiteral) else ()
    return chain((node,), *map(_written, inner))
