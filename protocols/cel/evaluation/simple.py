"""Find expressions that may be evaluated beside other work: nearly all selectors in use."""

from collections.abc import Callable

from protocols.cel.evaluation.tree import Call, Const, Ident, ListLiteral, Loop, Node, Select, text_of, tree_of
from protocols.cel.functions.patterns import is_light

MOST = 500
"""Units of the worst case: some 50 us a device."""
FUNCTIONS = frozenset(
    (
        "_&&_", "_||_", "!_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_[_]", "_[?_]", "_?._", "_?_:_",
        "-_", "orValue", "hasValue", "startsWith", "endsWith", "contains", "lowerAscii", "upperAscii", "trim", "size",
        "isGreaterThan", "isLessThan", "compareTo", "major", "minor", "patch", "asInteger", "isInteger",
    )
)  # fmt: skip
_OF_CONSTANTS = frozenset(("quantity", "semver"))
"""Functions that read a text, which must be a literal."""


_IN_LOOPS = FUNCTIONS | {"@not_strictly_false"}


def is_simple(serialized: bytes, cost: int) -> bool:
    """Return True for a cheap expression of which nothing can take long; `cost` is its worst case."""
    return cost <= MOST and _is_simple(tree_of(serialized))


def is_short(serialized: bytes) -> bool:
    """Return True if it may run beside other work within a small budget: simple, with loops and light patterns."""
    return _is_short(tree_of(serialized))


def _is_simple(node: Node) -> bool:
    if isinstance(node, ListLiteral):
        return not node.optional and all(isinstance(part, Const) for part in node.parts)
    return _is_plain(node, FUNCTIONS, _is_simple)


def _is_short(node: Node) -> bool:
    if isinstance(node, ListLiteral):
        return not node.optional and all(map(_is_short, node.parts))
    if isinstance(node, Loop):
        return _is_short_loop(node)
    if isinstance(node, Call) and node.name == "matches":
        text, pattern = node.parts
        return is_light(text_of(pattern)) and _is_short(text)
    return _is_plain(node, _IN_LOOPS, _is_short)


def _is_short_loop(node: Loop) -> bool:
    """`cel.bind` is none: it is a loop over nothing, which shares one value many times."""
    if isinstance(node.over, ListLiteral) and not node.over.parts:
        return False
    step = node.step
    if isinstance(step, Call) and step.name == "_?_:_" and _is_short(step.parts[0]) and _is_short(step.parts[2]):
        step = step.parts[1]
    if isinstance(step, Call) and step.name == "_+_" and step.parts[0] == Ident(step.parts[0].id, node.accumulator):
        step = step.parts[1]  # one item, or 1, more in each turn
    return all(map(_is_short, (node.over, node.start, node.condition, step, node.result)))


def _is_plain(node: Node, functions: frozenset[str], is_part: Callable[[Node], bool]) -> bool:
    if isinstance(node, Const | Ident):
        return True
    if isinstance(node, Select):
        return is_part(node.operand)
    if isinstance(node, Call):
        if node.name in _OF_CONSTANTS:
            return all(isinstance(part, Const) for part in node.parts)
        return node.name in functions and all(map(is_part, node.parts))
    return False
