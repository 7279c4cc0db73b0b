"""Quantities and versions inside the engine: bytes with a tag, since it cannot carry values of foreign types.

Equal values have equal bytes. No attribute of a device is bytes, so nothing else looks like one.
"""

import functools

from protocols.cel.semver import Version, parse_version
from protocols.kube.quantity import Quantity

QUANTITY, VERSION = b"\x01Q", b"\x01S"
NO_OVERLOAD = "no such overload"


@functools.lru_cache(maxsize=4096)
def encode_quantity(quantity: Quantity) -> bytes:
    return QUANTITY + b"%d" % quantity.nanos


@functools.lru_cache(maxsize=4096)
def encode_version(text: str) -> bytes:
    """Without build metadata, which equality ignores; raises ValueError."""
    parse_version(text)
    return VERSION + text.partition("+")[0].encode()


def quantity_of(value: bytes) -> Quantity:
    """Raises TypeError when it is none."""
    if value[:2] != QUANTITY:
        raise TypeError(NO_OVERLOAD)
    return Quantity(int(value[2:]))


def version_of(value: bytes) -> Version:
    """Raises TypeError when it is none."""
    if value[:2] != VERSION:
        raise TypeError(NO_OVERLOAD)
    return parse_version(value[2:].decode())


def compare(one: bytes, other: bytes) -> int:
    """-1, 0, 1; raises TypeError for values of two kinds."""
    if one[:2] == QUANTITY:
        left, right = quantity_of(one), quantity_of(other)
        return (left > right) - (left < right)
    first, second = version_of(one), version_of(other)
    return (first > second) - (first < second)
