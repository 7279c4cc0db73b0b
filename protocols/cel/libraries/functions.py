"""Declarations of functions that upstream has and the native checker lacks; their bodies are the evaluator's.

- The checker has `indexOf` and `string` and nobody can add overloads to its functions. Expressions therefore reach it
  with other names of the same length, so that columns in errors stay right.
- Of `exists_one` with one variable and with two it knows one spelling each; upstream knows both of both.
- It rejects comparisons of numbers of different types: its declarations of `<`, `<=`, `>` and `>=` are removed and
  declared anew with the missing overloads.
"""

from typing import TYPE_CHECKING, Any

from protocols.cel.libraries.addresses import CIDR, IP
from protocols.cel.libraries.named import SHORT
from protocols.cel.libraries.quantities import BOOL, DOUBLE, INT, STRING, Function
from protocols.cel.text.source import CompileError, Token, arguments

if TYPE_CHECKING:
    from cel_expr_python import cel


UINT, BYTES, TIMESTAMP, DURATION = "uint", "bytes", "timestamp", "duration"
DYN = "dyn"
LISTS = {kind: f"list<{kind}>" for kind in (INT, DOUBLE, STRING, BOOL, UINT, BYTES, TIMESTAMP, DURATION)}
ANY_LIST = "list"
SUMMED, ORDERED = (INT, UINT, DOUBLE, DURATION), (INT, UINT, DOUBLE, STRING, BOOL, BYTES, TIMESTAMP, DURATION)


def _typed(name: str, kinds: tuple[str, ...], result: str = "") -> tuple[Function, ...]:
    return tuple(Function(name, f"list_{kind}_{name}", result or kind, (LISTS[kind],), declared_only) for kind in kinds)


def declared_only(*_: Any) -> None:
    """Stand for a body that the evaluator has."""


OURS = {"indexOf": "indexOF", "lastIndexOf": "lastIndexOF", "string": "strinG", "existsOne": SHORT}
WRITTEN = {ours: name for name, ours in OURS.items()}
ADDRESSES = ("ip", "cidr")
"""Functions without which no expression has an address to convert to a string."""


def renamed(source: str, found: list[Token]) -> str:
    """Return the text with the names under which the checker has our functions; `found` are its tokens.

    Raises CompileError for a call by one of these names.
    """
    addresses = any(token.text in ADDRESSES for token in found)
    for at in range(len(found) - 2, -1, -1):
        token = found[at]
        if token.kind != "name" or found[at + 1].text != "(":
            continue
        if token.text in WRITTEN:
            raise CompileError(f"compilation failed: undeclared reference to '{token.text}'")
        if (name := _renamed(found, at, addresses)) is not None:
            source = source[: token.start] + name + source[token.end :]
    return source


def _renamed(found: list[Token], at: int, addresses: bool) -> str | None:
    """Return another name for a call, of the same length; None if it has none."""
    name = found[at].text
    if name == "exists_one":
        return "existsOne " if arguments(found, at + 1) == 3 else None
    if (name == "string" and not addresses) or (name == "existsOne" and arguments(found, at + 1) != 2):
        return None
    return OURS.get(name)


def as_written(text: str) -> str:
    """Return an error text of the checker with the public names of functions."""
    for name, ours in OURS.items():
        text = text.replace(ours, name)
    return text


def _index(name: str) -> tuple[Function, ...]:
    ours = OURS[name]
    return (
        Function(ours, f"string_{name}", INT, (STRING, STRING), declared_only),
        Function(ours, f"string_{name}_int", INT, (STRING, STRING, INT), declared_only),
        Function(ours, f"list_{name}_dyn", INT, (ANY_LIST, DYN), declared_only),
    )


_CONVERTED = (STRING, BOOL, INT, UINT, DOUBLE, BYTES, TIMESTAMP, DURATION, IP, CIDR)
CHECKED = (
    *_typed("sum", SUMMED),
    *_typed("min", ORDERED),
    *_typed("max", ORDERED),
    *_typed("isSorted", ORDERED, BOOL),
    *_index("indexOf"),
    *_index("lastIndexOf"),
    *(Function(OURS["string"], f"text_of_{kind}", STRING, (kind,), declared_only, member=False) for kind in _CONVERTED),
    Function("optional.unwrap", "optional_unwrap", ANY_LIST, (ANY_LIST,), declared_only, member=False),
    Function("unwrapOpt", "optional_unwrapOpt", ANY_LIST, (ANY_LIST,), declared_only),
    Function("find", "string_find_string", STRING, (STRING, STRING), declared_only),
    Function("findAll", "string_find_all_string", LISTS[STRING], (STRING, STRING), declared_only),
    Function("findAll", "string_find_all_string_int", LISTS[STRING], (STRING, STRING, INT), declared_only),
)


_SIGNS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
CONFIG = "stdlib:\n  exclude_functions:\n" + "".join(f"  - name: '{sign}'\n" for sign in _SIGNS)


def orders(native: Any) -> list["cel.FunctionDecl"]:
    """Return declarations of `<`, `<=`, `>` and `>=` for all pairs of numbers, and for values of one type."""
    kinds = native.Type
    numbers = {"int64": kinds.INT, "uint64": kinds.UINT, "double": kinds.DOUBLE}
    others = {"bool": kinds.BOOL, "string": kinds.STRING, "bytes": kinds.BYTES}
    others |= {"timestamp": kinds.TIMESTAMP, "duration": kinds.DURATION}
    pairs = [(one, other) for one in numbers for other in numbers] + [(name, name) for name in others]
    types = numbers | others

    def overload(name: str, one: str, other: str) -> "cel.Overload":
        id_ = f"{name}_{one}" if one == other else f"{name}_{one}_{other}"
        parameters = [types[one], types[other]]
        declaration: cel.Overload = native.Overload(id_, return_type=kinds.BOOL, parameters=parameters, is_member=False)
        return declaration

    return [
        native.FunctionDecl(sign, [overload(name, one, other) for one, other in pairs]) for sign, name in _SIGNS.items()
    ]
