"""Find expressions that may be evaluated beside other work: nearly all selectors in use."""

from protocols.cel.evaluation.tree import Call, Const, Ident, ListLiteral, Node, Select, tree_of

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


def is_simple(serialized: bytes, cost: int) -> bool:
    """`cost`: the worst case."""
    return cost <= MOST and _is_simple(tree_of(serialized))


def _is_simple(node: Node) -> bool:
    if isinstance(node, Const | Ident):
        return True
    if isinstance(node, Select):
        return _is_simple(node.operand)
    if isinstance(node, ListLiteral):
        return not node.optional and all(isinstance(part, Const) for part in node.parts)
    if isinstance(node, Call):
        if node.name in _OF_CONSTANTS:
            return all(isinstance(part, Const) for part in node.parts)
        return node.name in FUNCTIONS and all(map(_is_simple, node.parts))
    return False
