"""Functions that upstream adds to CEL's own: on lists, indexOf and lastIndexOf, find and findAll, mixed comparisons.

- The engine has `indexOf` of strings and nobody can add overloads to its functions. Expressions therefore reach it with
  other names of the same length, so that columns in errors stay right.
- `find` and `findAll` must take RE2's linear time, which only the engine offers. It replaces each match by itself
  between two marks that the text does not contain, and the marks show where the matches are.
- The engine compares numbers of different types at run time but rejects them in the check: its declarations of `<`,
  `<=`, `>` and `>=` are removed and declared anew with the missing overloads.
"""

import functools
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from protocols.cel.libraries.addresses import CIDR, IP, TAGS
from protocols.cel.libraries.quantities import BOOL, DOUBLE, INT, STRING, Function
from protocols.cel.text.maps import MAKERS
from protocols.cel.text.source import CompileError, Token, evaluation_text

if TYPE_CHECKING:
    from cel_expr_python import cel


UINT, BYTES, TIMESTAMP, DURATION = "uint", "bytes", "timestamp", "duration"
DYN = "dyn"
LISTS = {kind: f"list<{kind}>" for kind in (INT, DOUBLE, STRING, BOOL, UINT, BYTES, TIMESTAMP, DURATION)}
ANY_LIST = "list"
VALUES = (STRING, INT, DOUBLE, BOOL, UINT, BYTES, TIMESTAMP, DURATION, "null", "map", ANY_LIST)
"""All that a value can be."""
NUMBERS, ORDERED = (INT, DOUBLE), (INT, DOUBLE, STRING, BOOL, BYTES)


def _least(name: str, choose: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    def body(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(values)

    return body


def _sorted(values: list[Any]) -> bool:
    return all(not following < before for before, following in pairwise(values))


def _typed(name: str, kinds: tuple[str, ...], body: Callable[..., Any], result: str = "") -> tuple[Function, ...]:
    return tuple(Function(name, f"list_{kind}_{name}", result or kind, (LISTS[kind],), body) for kind in kinds)


_MIN, _MAX = _least("min", min), _least("max", max)
LIST_CHECKED = (
    *_typed("sum", NUMBERS, sum),
    *_typed("min", ORDERED, _MIN),
    *_typed("max", ORDERED, _MAX),
    *_typed("isSorted", tuple(LISTS), _sorted, BOOL),
)
"""With the types apart."""
LIST_RUN = (
    Function("sum", "list_sum", DYN, (ANY_LIST,), sum),
    Function("min", "list_min", DYN, (ANY_LIST,), _MIN),
    Function("max", "list_max", DYN, (ANY_LIST,), _MAX),
    Function("isSorted", "list_is_sorted", BOOL, (ANY_LIST,), _sorted),
)


OURS = {"indexOf": "indexOF", "lastIndexOf": "lastIndexOF", "string": "strinG"}
ON_LISTS = ("sum", "min", "max", "isSorted", "indexOF", "lastIndexOF")
"""Functions whose lists the engine converts to Python's, which it can only do to plain values."""
ADDRESSES = ("ip", "cidr")
"""Functions without which no expression has an address to convert to a string."""


def renamed(source: str, found: list[Token]) -> str:
    """`found` are its tokens. Raises CompileError for a call of what is ours alone."""
    addresses = any(token.text in ADDRESSES for token in found)
    for at in range(len(found) - 2, -1, -1):
        token = found[at]
        if token.kind != "name" or found[at + 1].text != "(":
            continue
        if token.text in OURS.values() or token.text in MAKERS.values():
            raise CompileError(f"compilation failed: undeclared reference to '{token.text}'")
        if token.text in OURS and (token.text != "string" or addresses):
            source = source[: token.start] + OURS[token.text] + source[token.end :]
    return source


def as_written(text: str) -> str:
    """Return an error text of the engine with the public names of functions."""
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
    """`wanted`: types of the element searched in a list."""
    made = []
    for name, in_text, in_list in (("indexOf", _in_text, _in_list), ("lastIndexOf", _last_in_text, _last_in_list)):
        made.append(Function(OURS[name], f"string_{name}", INT, (STRING, STRING), in_text))
        made.append(Function(OURS[name], f"string_{name}_int", INT, (STRING, STRING, INT), in_text))
        made += [Function(OURS[name], f"list_{name}_{kind}", INT, (ANY_LIST, kind), in_list) for kind in wanted]
    return tuple(made)


INDEX_CHECKED = _functions((DYN,))
INDEX_RUN = _functions(VALUES)
"""The engine finds no function for a value of any type by `dyn`."""


_CONVERTED = (STRING, BOOL, INT, UINT, DOUBLE, BYTES)
"""Types of which `string` has an overload beside addresses; the engine takes no times from Python."""
STRINGS_CHECKED = tuple(
    Function(OURS["string"], f"text_of_{kind}", STRING, (kind,), repr, member=False) for kind in (*_CONVERTED, IP, CIDR)
)


def _as_string(value: Any) -> str:
    """Convert as the engine does, addresses too."""
    if isinstance(value, bytes | bytearray) and value[:2] in (TAGS[IP], TAGS[CIDR]):
        return value[2:].decode()
    expression, error = _converting()
    result = expression.eval(data={"value": value})
    if result.type() == error:
        raise ValueError(evaluation_text(str(result.value())))
    text: str = result.value()
    return text


@functools.cache
def _converting() -> tuple["cel.Expression", "cel.Type"]:
    """Return the expression and the type of errors."""
    from cel_expr_python import cel

    config = cel.NewEnvConfigFromYaml("name: converting\n")
    env: cel.Env = cel.NewEnv(config=config, variables={"value": cel.Type.DYN})
    return env.compile("string(value)"), cel.Type.ERROR


def _map_of(entries: list[list[Any]]) -> dict[Any, Any]:
    """Return the map of keys and values; `true` and 1, which are two keys in CEL and one in Python, cannot be both."""
    found: dict[Any, Any] = {}
    for key, value in entries:
        if key in found:
            raise ValueError(f"insert failed: key {key!r} already exists")
        found[key] = _for_engine(value)
    return found


def _for_engine(value: Any) -> Any:
    """Return a value that came from the engine as one that it takes back."""
    if isinstance(value, dict):
        return {key: _for_engine(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_for_engine(each) for each in value]
    return _time_for_engine(value) if isinstance(value, datetime | timedelta) else value


def _time_for_engine(value: datetime | timedelta) -> Any:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    if isinstance(value, datetime):
        moment = Timestamp()
        moment.FromDatetime(value)
        return moment
    span = Duration()
    span.FromTimedelta(value)
    return span


def _merged(maps: list[dict[Any, Any]]) -> dict[Any, Any]:
    return _map_of([[key, value] for each in maps for key, value in each.items()])


MAPS_RUN = (
    Function(MAKERS["transformMap"], "list_to_map", "map", (ANY_LIST,), _map_of),
    Function(MAKERS["transformMapEntry"], "list_merged_map", "map", (ANY_LIST,), _merged),
)


STRINGS_RUN = tuple(
    Function(OURS["string"], f"text_of_{kind}", STRING, (kind,), _as_string, member=False) for kind in _CONVERTED
)


_CONFIG = "name: finding\nextensions:\n- name: optional\n- name: regex\n"
_MARKS = range(0xE000, 0xF900)
"""Unicode's private use area."""


def _find(text: str, pattern: str) -> str:
    return next(iter(_found(text, pattern, 1)), "")


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    """All of them where `most` is negative."""
    return _found(text, pattern, most) if most else []


def _found(text: str, pattern: str, most: int) -> list[str]:
    """Raises ValueError for what is no pattern."""
    mark = next((chr(code) for code in _MARKS if chr(code) not in text), "")
    if not mark:
        raise ValueError("the text holds every character of the private use area")
    expression, error = _replacing()
    result = expression.eval(data={"text": text, "pattern": pattern, "by": f"{mark}\\0{mark}", "most": max(most, -1)})
    marked: str = result.value()
    if result.type() == error:
        raise ValueError(evaluation_text(marked))
    return marked.split(mark)[1::2]


@functools.cache
def _replacing() -> tuple["cel.Expression", "cel.Type"]:
    """And the type of errors."""
    from cel_expr_python import cel

    kinds = cel.Type
    variables = {"text": kinds.STRING, "pattern": kinds.STRING, "by": kinds.STRING, "most": kinds.INT}
    env: cel.Env = cel.NewEnv(config=cel.NewEnvConfigFromYaml(_CONFIG), variables=variables)
    return env.compile("regex.replace(text, pattern, by, most)"), kinds.ERROR


FIND_FUNCTIONS = (
    Function("find", "string_find_string", STRING, (STRING, STRING), _find),
    Function("findAll", "string_find_all_string", LISTS[STRING], (STRING, STRING), _find_all),
    Function("findAll", "string_find_all_string_int", LISTS[STRING], (STRING, STRING, INT), _find_all),
)


_SIGNS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
CONFIG = "stdlib:\n  exclude_functions:\n" + "".join(f"  - name: '{sign}'\n" for sign in _SIGNS)


def orders(native: Any) -> list["cel.FunctionDecl"]:
    kinds = native.Type
    numbers = {"int64": kinds.INT, "uint64": kinds.UINT, "double": kinds.DOUBLE}
    others = {"bool": kinds.BOOL, "string": kinds.STRING, "bytes": kinds.BYTES}
    others |= {"timestamp": kinds.TIMESTAMP, "duration": kinds.DURATION}
    pairs = [(one, other) for one in numbers for other in numbers] + [(name, name) for name in others]
    types = numbers | others

    def overload(name: str, one: str, other: str) -> "cel.Overload":
        id_ = f"{name}_{one}" if one == other else f"{name}_{one}_{other}"
        parameters = [types[one], types[other]]
        made: cel.Overload = native.Overload(id_, return_type=kinds.BOOL, parameters=parameters, is_member=False)
        return made

    return [
        native.FunctionDecl(sign, [overload(name, one, other) for one, other in pairs]) for sign, name in _SIGNS.items()
    ]
