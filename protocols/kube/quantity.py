"""Resource quantities (`100m`, `1.5Gi`, `12e6`), exact.

A value is kept as a whole number of nano-units, the finest the API knows; finer input is rounded away from zero, and
nothing exceeds 2^63-1 units: both as upstream does.
"""

import functools
import re
from fractions import Fraction

import msgspec

from protocols.kube.errors import QuantityInvalid

NANO = 10**9
MAX_NANOS = (2**63 - 1) * NANO
MAX_TEXT = 256

DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"

_GRAMMAR = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?\d{1,9}))?", re.ASCII)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)
_FAR = 400
"""Powers of ten beyond which every non-zero mantissa of MAX_TEXT digits is over the cap, or below a nano."""


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """`nanos` is the exact value times 10^9; `format` only says how it is written. Order and equality are by value."""

    nanos: int
    format: str = DECIMAL_SI

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    # msgspec's structs have all comparisons already, so that functools.total_ordering would add none
    def __le__(self, other: "Quantity") -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: "Quantity") -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: "Quantity") -> bool:
        return self.nanos >= other.nanos

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(_capped(self.nanos + other.nanos), self.format if self.nanos else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(_capped(self.nanos - other.nanos), self.format if self.nanos else other.format)

    def __str__(self) -> str:
        """Return the canonical form: no fraction, the largest suffix that loses nothing."""
        if self.nanos == 0:
            return "0"
        if self.format == BINARY_SI and abs(self.nanos) >= 1024 * NANO and self.is_integer:
            return _write_binary(self.nanos // NANO)
        return _write_decimal(self.nanos, exponent=self.format == DECIMAL_EXPONENT)

    @property
    def is_integer(self) -> bool:
        return self.nanos % NANO == 0

    def value(self) -> int:
        """Return whole units, rounded up."""
        return -(-self.nanos // NANO)

    def milli(self) -> int:
        """Return thousandths, rounded up: the unit in which schedulers count cpu."""
        return -(-self.nanos // (NANO // 1000))


ZERO = Quantity(0)


def parse_quantity(text: str | int | float) -> Quantity:
    """Read a quantity as JSON carries it; raises QuantityInvalid."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise QuantityInvalid(f"not a quantity: {text!r}; write it as a string such as 500m or 1Gi")
    if isinstance(text, str):
        return _parse_text(text)
    return Quantity(_capped(text * NANO)) if isinstance(text, int) else _parse_text(repr(text))


def is_quantity(text: str | int | float) -> bool:
    """Return True if `parse_quantity` reads it."""
    try:
        parse_quantity(text)
    except QuantityInvalid:
        return False
    return True


def _parse_text(text: str) -> Quantity:
    if len(text) > MAX_TEXT:
        raise _invalid(text)
    return _parse_short(text)


def _invalid(text: str) -> QuantityInvalid:
    return QuantityInvalid(f"not a quantity: {text[:64]!r}; write a number with an optional suffix such as m, k, Mi")


@functools.lru_cache(maxsize=4096)
def _parse_short(text: str) -> Quantity:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise _invalid(text)
    sign, digits, suffix, exponent = match.groups()
    form = BINARY_SI if suffix in _BINARY else DECIMAL_EXPONENT if exponent else DECIMAL_SI
    nanos = _nanos(Fraction(digits if not digits.endswith(".") else digits[:-1]), suffix or "", exponent)
    if form == BINARY_SI and 0 < nanos < NANO:
        form = DECIMAL_SI
    return Quantity(-nanos if sign == "-" else nanos, form)


def _nanos(mantissa: Fraction, suffix: str, exponent: str | None) -> int:
    """Non-negative nano-units, rounded up, capped."""
    if suffix in _BINARY:
        scaled = mantissa * 2 ** _BINARY[suffix]
    else:
        power = int(exponent) if exponent else _DECIMAL[suffix]
        scaled = mantissa * Fraction(10) ** max(-_FAR, min(_FAR, power))
    return _capped(-(-scaled.numerator * NANO // scaled.denominator))


def _capped(nanos: int) -> int:
    return max(-MAX_NANOS, min(MAX_NANOS, nanos))


def _write_binary(units: int) -> str:
    steps = 0
    while units % 1024 == 0 and steps < len(_BINARY_SUFFIX) - 1:
        units //= 1024
        steps += 1
    return f"{units}{_BINARY_SUFFIX[steps]}"


def _write_decimal(nanos: int, exponent: bool) -> str:
    power = -9
    while nanos % 1000 == 0 and power < 18:
        nanos //= 1000
        power += 3
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[power]}"
