"""Amounts by resource name: sums, maxima, comparison, and their texts."""

from collections.abc import Collection, Iterable, Mapping

from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import ZERO, Quantity, parse_quantity

Amounts = dict[str, Quantity]
ONE = parse_quantity("1")


def parsed(resources: object) -> Amounts:
    """Return the valid quantities of a map of resources; an empty map for anything else."""
    if not isinstance(resources, Mapping):
        return {}
    amounts = {}
    for name, value in resources.items():
        try:
            amounts[str(name)] = parse_quantity(value)
        except QuantityInvalid:
            continue
    return amounts


def texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    """Return amounts as the API writes them."""
    return {name: str(amount) for name, amount in amounts.items()}


def total(*each: Mapping[str, Quantity]) -> Amounts:
    """Return the sum by resource."""
    result: Amounts = {}
    for amounts in each:
        for name, amount in amounts.items():
            held = result.get(name)
            result[name] = amount if held is None else held + amount
    return result


def greatest(*each: Mapping[str, Quantity]) -> Amounts:
    """Return the maximum by resource; a resource that only one has counts."""
    result: Amounts = {}
    for amounts in each:
        for name, amount in amounts.items():
            held = result.get(name)
            result[name] = amount if held is None else max(held, amount)
    return result


def _difference(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> Amounts:
    return {name: new.get(name, ZERO) - old.get(name, ZERO) for name in dict.fromkeys((*new, *old))}


def increase(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> Amounts:
    """Return the positive part of the difference."""
    return {name: amount for name, amount in _difference(new, old).items() if amount.nanos > 0}


def masked(amounts: Mapping[str, Quantity], names: Collection[str]) -> Amounts:
    """Return the amounts of the given resources only."""
    return {name: amount for name, amount in amounts.items() if name in names}


def exceeded(amounts: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> list[str]:
    """Return the sorted names of amounts above their limit; what has no limit is never above it."""
    return sorted(name for name, amount in amounts.items() if name in limits and amount > limits[name])


def shown(amounts: Mapping[str, Quantity]) -> str:
    """Return `NAME=AMOUNT,...`, sorted, as error texts of quotas have it."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def listed(names: Iterable[str]) -> str:
    """Return names joined by commas, sorted."""
    return ",".join(sorted(names))
