"""The table of functions: a body and a price for each name and the Python types of its arguments.

The price is taken before the body runs: a number, or a function of the arguments where work or result grow with them.
A body raises EvaluationError or ValueError for arguments that it cannot take.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from protocols.cel.functions.values import LISTS, Domains

Body = Callable[..., Any]
Price = int | Callable[..., int]


class Overload(NamedTuple):
    """Body and price of a function for one list of argument types."""

    body: Body
    price: Callable[..., int] | None
    """None where the fixed price is all."""
    fixed: int
    metered: bool
    """The body takes the frame first, and charges it as it proceeds."""


ANY = object
"""Stands for an argument of any type."""
TABLE: dict[str, dict[tuple[type, ...], Overload]] = {}


def define(name: str, types: tuple[type, ...], body: Body, price: Price = 1, *, metered: bool = False) -> None:
    """Add an overload to TABLE; one for the same types replaces it."""
    overload = Overload(body, None, price, metered) if isinstance(price, int) else Overload(body, price, 0, metered)
    TABLE.setdefault(name, {})[types] = overload


def find(overloads: dict[tuple[type, ...], Overload], types: tuple[type, ...]) -> Overload | None:
    """Return the overload of these types: the exact one, else one that takes any."""
    exact = overloads.get(types)
    if exact is not None:
        return exact
    for wanted, overload in overloads.items():
        if len(wanted) == len(types) and all(map(_fits, wanted, types)):
            return overload
    return None


def _fits(wanted: type, given: type) -> bool:
    return (
        wanted is ANY or wanted is given or (given is Domains if wanted is dict else wanted is list and given in LISTS)
    )
