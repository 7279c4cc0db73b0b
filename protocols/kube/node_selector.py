"""Node selectors: which nodes a NodeSelector or one of its terms means. Pure; unknown operators match nothing."""

from collections.abc import Iterable, Mapping
from typing import Any

Labels = Mapping[str, str]


def selects(selector: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """One of the terms matches; a selector without terms selects nothing."""
    return any(term_matches(term, name, labels) for term in selector.get("nodeSelectorTerms") or ())


def term_matches(term: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """An empty term matches nothing (upstream)."""
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    return _all(by_label, labels) and _all(by_field, {"metadata.name": name})


def _all(demands: Iterable[Mapping[str, Any]], labels: Labels) -> bool:
    return all(_matches(demand, labels) for demand in demands)


def _matches(demand: Mapping[str, Any], labels: Labels) -> bool:
    key, values = str(demand.get("key") or ""), demand.get("values") or []
    actual = labels.get(key)
    match demand.get("operator"):
        case "In":
            return actual in values
        case "NotIn":
            return actual not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt" as operator:
            return _compared(operator, actual, values)
    return False


def _compared(operator: str, actual: str | None, values: list[str]) -> bool:
    try:
        left, right = int(actual or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
