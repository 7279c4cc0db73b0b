"""Kubernetes' own libraries in the table: quantities, versions, addresses, URLs, formats and the authorizer."""

import ipaddress
from itertools import product
from urllib.parse import SplitResult

from protocols.cel.functions.registry import define
from protocols.cel.functions.values import NAMES, Uint
from protocols.cel.libraries import addresses, authorizing, named, quantities
from protocols.kube.quantity import Quantity

TYPES: dict[str, tuple[type, ...]] = {
    quantities.STRING: (str,),
    quantities.BOOL: (bool,),
    quantities.INT: (int,),
    quantities.DOUBLE: (float,),
    "uint": (Uint,),
    quantities.QUANTITY: (Quantity,),
    quantities.VERSION: (quantities.Semver,),
    addresses.IP: (ipaddress.IPv4Address, ipaddress.IPv6Address),
    addresses.CIDR: (ipaddress.IPv4Interface, ipaddress.IPv6Interface),
    addresses.URL: (SplitResult,),
    named.FORMAT: (named.Format,),
}
"""Python's types by the names of parameters."""


def _escaped(key: str) -> str:
    """Return a key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _defined() -> None:
    for function in (*quantities.FUNCTIONS, *addresses.FUNCTIONS, *named.FUNCTIONS):
        for types in product(*(TYPES[name] for name in function.parameters)):
            define(function.name, types, function.body, function.price)
    for kind in (*TYPES[addresses.IP], *TYPES[addresses.CIDR]):
        define("string", (kind,), str, 10)
    for name, of, _, parameters, body, price in authorizing.STEPS:
        define(name, (of, *parameters), body, price)
        NAMES[of] = f"{authorizing.PACKAGE}.{of.__name__}"
    define("jsonpatch.escapeKey", (str,), _escaped, quantities.reading(1))
    for name, full in named.OPAQUE.items():
        NAMES.update(dict.fromkeys(TYPES[name], full))


_defined()
