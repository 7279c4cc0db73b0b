"""Functions of the quantity and semver libraries.

`declared` gives them as the engine wants them: twice, once with the two types apart and nothing behind (to check), once
on bytes (to run).
"""

import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import NANO, Quantity, is_quantity, parse_quantity

if TYPE_CHECKING:
    from cel_expr_python import cel


_ID = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_STRICT = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(?:-({_ID}(?:\.{_ID})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
MAX = 2**63 - 1

Field = tuple[int, int, str]
Version = tuple[int, int, int, tuple[Field, ...]]
"""Comparable: major, minor, patch, pre-release."""

RELEASE: tuple[Field, ...] = ((2, 0, ""),)
"""Stands for no pre-release: behind all pre-releases."""


LONGEST = 256
"""Characters of a version."""


def parse_version(text: str) -> Version:
    """Strict; raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError(f"invalid semantic version {text[:64]!r}")
    return _parsed(text)


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Version:
    match = _STRICT.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid semantic version {text[:64]!r}")
    numbers = [int(match[part]) for part in (1, 2, 3)]
    if max(numbers) > MAX:
        raise ValueError(f"invalid semantic version {text[:64]!r}: a number is too large")
    return (numbers[0], numbers[1], numbers[2], _fields(match[4]) if match[4] else RELEASE)


def _fields(text: str) -> tuple[Field, ...]:
    """Numbers come before words, and by value."""
    return tuple([(0, int(part), "") if part.isdigit() else (1, 0, part) for part in text.split(".")])


def normalized(text: str) -> str:
    """`v1.2` becomes `1.2.0`, `01.2.3` becomes `1.2.3`; raises ValueError for short versions with a pre-release."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search(r"[-+]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    stripped = [_stripped(part) for part in parts]
    return ".".join(stripped + ["0"] * (3 - len(stripped)))


def _stripped(part: str) -> str:
    """Without leading zeros."""
    rest = part.lstrip("0")
    return rest if rest[:1].isdigit() else "0" + rest if part.startswith("0") else part


QUANTITY_TAG, VERSION_TAG = b"\x01Q", b"\x01S"
NO_OVERLOAD = "no such overload"


@functools.lru_cache(maxsize=4096)
def encode_quantity(quantity: Quantity) -> bytes:
    return QUANTITY_TAG + b"%d" % quantity.nanos


@functools.lru_cache(maxsize=4096)
def encode_version(text: str) -> bytes:
    """Without build metadata, which equality ignores; raises ValueError."""
    parse_version(text)
    return VERSION_TAG + text.partition("+")[0].encode()


def quantity_of(value: bytes) -> Quantity:
    """Raises TypeError when it is none."""
    if value[:2] != QUANTITY_TAG:
        raise TypeError(NO_OVERLOAD)
    return Quantity(int(value[2:]))


def version_of(value: bytes) -> Version:
    """Raises TypeError when it is none."""
    if value[:2] != VERSION_TAG:
        raise TypeError(NO_OVERLOAD)
    return parse_version(value[2:].decode())


def compare(one: bytes, other: bytes) -> int:
    """-1, 0, 1; raises TypeError for values of two kinds."""
    if one[:2] == QUANTITY_TAG:
        left, right = quantity_of(one), quantity_of(other)
        return (left > right) - (left < right)
    first, second = version_of(one), version_of(other)
    return (first > second) - (first < second)


STRING, BOOL, INT, DOUBLE, QUANTITY, VERSION = "string", "bool", "int", "double", "quantity", "version"
INT64 = 2**63


class Function(msgspec.Struct, frozen=True):
    name: str
    id: str
    result: str
    parameters: tuple[str, ...]
    body: Callable[..., Any]
    member: bool = True


def _quantity(text: str) -> bytes:
    try:
        return encode_quantity(parse_quantity(text))
    except QuantityInvalid:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _version(text: str, normalize: bool = False) -> bytes:
    return encode_version(normalized(text) if normalize else text)


def _is_version(text: str, normalize: bool = False) -> bool:
    try:
        parse_version(normalized(text) if normalize else text)
    except ValueError:
        return False
    return True


def _fits(quantity: Quantity) -> bool:
    return quantity.is_integer and -INT64 <= quantity.nanos // NANO < INT64


def _integer(value: bytes) -> int:
    quantity = quantity_of(value)
    if not _fits(quantity):
        raise ValueError("cannot convert value to integer")
    return quantity.nanos // NANO


def _added(value: bytes, other: bytes | int, sign: int = 1) -> bytes:
    nanos = other * NANO if isinstance(other, int) else quantity_of(other).nanos
    return encode_quantity(quantity_of(value) + Quantity(sign * nanos))


def _sign(value: bytes) -> int:
    nanos = quantity_of(value).nanos
    return (nanos > 0) - (nanos < 0)


_ALONE = (
    Function("quantity", "string_to_quantity", QUANTITY, (STRING,), _quantity, member=False),
    Function("isQuantity", "is_quantity_string", BOOL, (STRING,), is_quantity, member=False),
    Function("sign", "quantity_sign", INT, (QUANTITY,), _sign, member=False),
    Function("asInteger", "quantity_get_int", INT, (QUANTITY,), _integer),
    Function("isInteger", "quantity_is_integer", BOOL, (QUANTITY,), lambda value: _fits(quantity_of(value))),
    Function("asApproximateFloat", "quantity_float", DOUBLE, (QUANTITY,), lambda v: quantity_of(v).nanos / NANO),
    Function("add", "quantity_add", QUANTITY, (QUANTITY, QUANTITY), _added),
    Function("add", "quantity_add_int", QUANTITY, (QUANTITY, INT), _added),
    Function("sub", "quantity_sub", QUANTITY, (QUANTITY, QUANTITY), lambda value, other: _added(value, other, -1)),
    Function("sub", "quantity_sub_int", QUANTITY, (QUANTITY, INT), lambda value, other: _added(value, other, -1)),
    Function("semver", "string_to_semver", VERSION, (STRING,), _version, member=False),
    Function("semver", "string_bool_to_semver", VERSION, (STRING, BOOL), _version, member=False),
    Function("isSemver", "is_semver_string", BOOL, (STRING,), _is_version, member=False),
    Function("isSemver", "is_semver_string_bool", BOOL, (STRING, BOOL), _is_version, member=False),
    Function("major", "semver_major", INT, (VERSION,), lambda value: version_of(value)[0]),
    Function("minor", "semver_minor", INT, (VERSION,), lambda value: version_of(value)[1]),
    Function("patch", "semver_patch", INT, (VERSION,), lambda value: version_of(value)[2]),
)


def _comparisons(kind: str) -> tuple[Function, ...]:
    both = (kind, kind)
    return (
        Function("isGreaterThan", f"{kind}_is_greater_than", BOOL, both, lambda one, other: compare(one, other) > 0),
        Function("isLessThan", f"{kind}_is_less_than", BOOL, both, lambda one, other: compare(one, other) < 0),
        Function("compareTo", f"{kind}_compare_to", INT, both, compare),
    )


def declared(
    native: Any, types: dict[str, "cel.Type"], run: bool, more: Iterable[Function] = ()
) -> list["cel.FunctionDecl"]:
    """`types` maps our names to the engine's. To run, where both kinds are bytes, one comparison does for both."""
    functions = [*_ALONE, *_comparisons(QUANTITY), *(() if run else _comparisons(VERSION)), *more]
    overloads: dict[str, list[cel.Overload]] = {}
    for function in functions:
        overloads.setdefault(function.name, []).append(_overload(native, types, function, run))
    return [native.FunctionDecl(name, made) for name, made in overloads.items()]


def _overload(native: Any, types: dict[str, "cel.Type"], function: Function, run: bool) -> "cel.Overload":
    body = {"impl": function.body} if run else {}
    parameters = [types[name] for name in function.parameters]
    made: cel.Overload = native.Overload(
        function.id, return_type=types[function.result], parameters=parameters, is_member=function.member, **body
    )
    return made
