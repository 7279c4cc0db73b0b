"""Functions of the quantity and semver libraries, and how all of ours are declared to the checker."""

import functools
import operator
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
    """Parse a strict semantic version; raises ValueError."""
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
    """Normalize a version: `v1.2` becomes `1.2.0`, `01.2.3` becomes `1.2.3`.

    Raises ValueError for short versions with a pre-release.
    """
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search(r"[-+]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    stripped = [_stripped(part) for part in parts]
    return ".".join(stripped + ["0"] * (3 - len(stripped)))


def _stripped(part: str) -> str:
    """Return the part of a version without leading zeros."""
    rest = part.lstrip("0")
    return rest if rest[:1].isdigit() else "0" + rest if part.startswith("0") else part


class Semver(msgspec.Struct, frozen=True, order=True, gc=False):
    """A version without build metadata, which neither order nor equality sees."""

    fields: Version


@functools.lru_cache(maxsize=4096)
def semver(text: str) -> Semver:
    """Raises ValueError."""
    return Semver(parse_version(text))


STRING, BOOL, INT, DOUBLE, QUANTITY, VERSION = "string", "bool", "int", "double", "quantity", "version"
INT64 = 2**63


Price = int | Callable[..., int]


class Function(msgspec.Struct, frozen=True):
    """One overload of ours: its declaration and its body."""

    name: str
    id: str
    result: str
    parameters: tuple[str, ...]
    body: Callable[..., Any]
    member: bool = True
    price: Price = 1
    """Units of upstream's cost, and more where the body takes longer than they stand for."""


def reading(units: int) -> Callable[..., int]:
    """Return the price of reading a text: by its length, and at least so many units."""
    return lambda text, *_: units + (len(text) + 9) // 10


def _quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except QuantityInvalid:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _version(text: str, normalize: bool = False) -> Semver:
    if len(text) > LONGEST:
        raise ValueError(f"invalid semantic version {text[:64]!r}")
    return semver(normalized(text) if normalize else text)


def _is_version(text: str, normalize: bool = False) -> bool:
    try:
        _version(text, normalize)
    except ValueError:
        return False
    return True


def _fits(quantity: Quantity) -> bool:
    return quantity.is_integer and -INT64 <= quantity.nanos // NANO < INT64


def _integer(quantity: Quantity) -> int:
    if not _fits(quantity):
        raise ValueError("cannot convert value to integer")
    return quantity.nanos // NANO


def _added(value: Quantity, other: Quantity | int, sign: int = 1) -> Quantity:
    if isinstance(other, int):
        other = Quantity(other * NANO)
    return value + other if sign > 0 else value - other


def _sign(value: Quantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


_ALONE = (
    Function("quantity", "string_to_quantity", QUANTITY, (STRING,), _quantity, member=False, price=reading(6)),
    Function("isQuantity", "is_quantity_string", BOOL, (STRING,), is_quantity, member=False, price=reading(6)),
    Function("sign", "quantity_sign", INT, (QUANTITY,), _sign, member=False),
    Function("asInteger", "quantity_get_int", INT, (QUANTITY,), _integer),
    Function("isInteger", "quantity_is_integer", BOOL, (QUANTITY,), _fits),
    Function("asApproximateFloat", "quantity_float", DOUBLE, (QUANTITY,), lambda value: value.nanos / NANO),
    Function("add", "quantity_add", QUANTITY, (QUANTITY, QUANTITY), _added),
    Function("add", "quantity_add_int", QUANTITY, (QUANTITY, INT), _added),
    Function("sub", "quantity_sub", QUANTITY, (QUANTITY, QUANTITY), lambda value, other: _added(value, other, -1)),
    Function("sub", "quantity_sub_int", QUANTITY, (QUANTITY, INT), lambda value, other: _added(value, other, -1)),
    Function("semver", "string_to_semver", VERSION, (STRING,), _version, member=False, price=reading(8)),
    Function("semver", "string_bool_to_semver", VERSION, (STRING, BOOL), _version, member=False, price=reading(8)),
    Function("isSemver", "is_semver_string", BOOL, (STRING,), _is_version, member=False, price=reading(8)),
    Function("isSemver", "is_semver_string_bool", BOOL, (STRING, BOOL), _is_version, member=False, price=reading(8)),
    Function("major", "semver_major", INT, (VERSION,), lambda value: value.fields[0]),
    Function("minor", "semver_minor", INT, (VERSION,), lambda value: value.fields[1]),
    Function("patch", "semver_patch", INT, (VERSION,), lambda value: value.fields[2]),
)


def _comparisons(kind: str) -> tuple[Function, ...]:
    both = (kind, kind)
    return (
        Function("isGreaterThan", f"{kind}_is_greater_than", BOOL, both, operator.gt),
        Function("isLessThan", f"{kind}_is_less_than", BOOL, both, operator.lt),
        Function("compareTo", f"{kind}_compare_to", INT, both, lambda one, other: (one > other) - (one < other)),
    )


FUNCTIONS = (*_ALONE, *_comparisons(QUANTITY), *_comparisons(VERSION))


def declared(native: Any, types: dict[str, "cel.Type"], functions: Iterable[Function]) -> list["cel.FunctionDecl"]:
    """Return the declarations for the checker; `types` maps our names to its types."""
    overloads: dict[str, list[cel.Overload]] = {}
    for function in functions:
        parameters = [types[name] for name in function.parameters]
        made: cel.Overload = native.Overload(
            function.id, return_type=types[function.result], parameters=parameters, is_member=function.member
        )
        overloads.setdefault(function.name, []).append(made)
    return [native.FunctionDecl(name, made) for name, made in overloads.items()]
