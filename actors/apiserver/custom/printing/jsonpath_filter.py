"""Comparisons within JSONPath filters. Operands must have the same type, as in Go templates."""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

MOST_DIGITS = 18
"""Longer integers are compared as floats."""
NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")
QUOTED = re.compile(r"""("|')((?:\\.|(?!\1)[^\\])*)\1""")
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Literal(NamedTuple):
    value: Any


def literal(text: str) -> Literal | None:
    """Parse a quoted string, a number or a boolean; None for anything else."""
    if text in ("true", "false"):
        return Literal(text == "true")
    quoted = QUOTED.fullmatch(text)
    if quoted is not None:
        return Literal(re.sub(r"\\(.)", r"\1", quoted[2]))
    if NUMBER.fullmatch(text) is None:
        return None
    return Literal(float(text) if "." in text or len(text) > MOST_DIGITS else int(text))


def compared(left: Any, sign: str, right: Any) -> bool | None:
    """Compare two values; None if their types differ or have no order."""
    compare = SIGNS.get(sign)
    kind = type(left)
    if compare is None or kind is not type(right) or kind not in (str, int, float, bool):
        return None
    return None if kind is bool and sign not in ("==", "!=") else compare(left, right)
