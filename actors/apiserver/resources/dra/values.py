"""Validate attributes, capacities, taints and tolerations."""

from typing import Any

from actors.apiserver.api.causes import Cause, forbidden, invalid, required, too_long, unsupported
from actors.apiserver.api.objects import now
from actors.apiserver.resources.dra.names import each, label_key_causes, label_value_causes, rows, table
from protocols.cel.library import parse_version
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.quantity import Quantity, parse_quantity

KINDS = ("int", "bool", "string", "version")
VALUE_LENGTH = 64
TAINTS, VALID_VALUES = 16, 10
EFFECTS = ("NoExecute", "NoSchedule", "None")
ONE_VALUE = "exactly one value must be specified"
SEMVER = "must be a string compatible with semver.org spec 2.0.0"


def attribute_causes(path: str, value: Any, kinds: tuple[str, ...] = KINDS) -> list[Cause]:
    given = [kind for kind in kinds if table(value).get(kind) is not None]
    if not given:
        return [invalid(path, "", ONE_VALUE)]
    if len(given) > 1:
        return [invalid(path, value, ONE_VALUE)]
    text = value.get(given[0])
    if given[0] in ("string", "version") and len(str(text).encode()) > VALUE_LENGTH:
        return [too_long(f"{path}.{given[0]}", VALUE_LENGTH)]
    if given[0] == "version" and not _is_version(text):
        return [invalid(f"{path}.version", text, SEMVER)]
    return []


def _is_version(text: Any) -> bool:
    try:
        parse_version(str(text))
    except ValueError:
        return False
    return True


def capacity_causes(path: str, value: Any, shared: bool) -> list[Cause]:
    """Validate a capacity; a request policy requires `shared`, a device that allows several allocations."""
    amount = _quantity(table(value).get("value"))
    if amount is None:
        return [required(f"{path}.value")]
    policy = table(value).get("requestPolicy")
    if policy is None:
        return []
    if not shared:
        return [forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")]
    return _policy_causes(f"{path}.requestPolicy", table(policy), amount)


def _quantity(value: Any) -> Quantity | None:
    try:
        return None if value is None else parse_quantity(value)
    except QuantityInvalid:
        return None


def _policy_causes(path: str, policy: Object, amount: Quantity) -> list[Cause]:
    values, bounds, default = policy.get("validValues"), policy.get("validRange"), _quantity(policy.get("default"))
    if values and bounds is not None:
        return [
            forbidden(f"{path}.validRange", "exactly one policy can be specified, cannot specify `validValues` too")
        ]
    if (values or bounds is not None) and default is None:
        return [required(f"{path}.default")]
    if default is not None and default > amount:
        return [invalid(f"{path}.default", str(default), f"must not be larger than the capacity value {amount}")]
    if values:
        return _values_causes(f"{path}.validValues", values, default, amount)
    return _range_causes(f"{path}.validRange", table(bounds), amount) if bounds is not None else []


def _values_causes(path: str, values: Any, default: Quantity | None, amount: Quantity) -> list[Cause]:
    found = [_quantity(value) for value in values]
    causes = each(path, values, VALID_VALUES, lambda at, value: [])
    if causes:
        return causes
    for index, value in enumerate(found):
        if value is not None and value > amount:
            causes.append(
                invalid(f"{path}[{index}]", str(value), f"must not be larger than the capacity value {amount}")
            )
        if index and value is not None and (before := found[index - 1]) is not None and value <= before:
            causes.append(invalid(f"{path}[{index}]", str(value), "must be in ascending order"))
    if default is not None and default not in found:
        causes.append(invalid(path, str(default), "must contain the default value"))
    return causes


def _range_causes(path: str, bounds: Object, amount: Quantity) -> list[Cause]:
    low, high, step = (_quantity(bounds.get(name)) for name in ("min", "max", "step"))
    if low is None:
        return [required(f"{path}.min")]
    causes = []
    for name, value in (("min", low), ("max", high)):
        if value is not None and value > amount:
            causes.append(invalid(f"{path}.{name}", str(value), f"must not be larger than the capacity value {amount}"))
    if high is not None and high < low:
        causes.append(invalid(f"{path}.max", str(high), f"must not be less than the min value {low}"))
    if step is not None and step.nanos <= 0:
        causes.append(invalid(f"{path}.step", str(step), "must be greater than zero"))
    return causes


def taint_causes(path: str, taint: Any) -> list[Cause]:
    held = table(taint)
    key, effect = held.get("key") or "", held.get("effect") or ""
    causes = label_key_causes(f"{path}.key", key)
    causes += label_value_causes(f"{path}.value", held.get("value") or "")
    if not effect:
        return [*causes, required(f"{path}.effect")]
    return causes if effect in EFFECTS else [*causes, unsupported(f"{path}.effect", effect, EFFECTS)]


def taints_causes(path: str, taints: Any) -> list[Cause]:
    return each(path, taints, TAINTS, taint_causes)


def stamp(taints: list[Object], before: list[Object]) -> None:
    """Set timeAdded on taints.

    A taint without a time gets the current second; with the same key and effect as before, it retains its time, so
    writing it again changes nothing. A changed effect sets the current time, even if the old time was sent.
    """
    times = {(taint.get("key"), taint.get("effect")): taint.get("timeAdded") for taint in before}
    old = {(taint.get("key"), taint.get("timeAdded")) for taint in before}
    for taint in taints:
        identity, added = (taint.get("key"), taint.get("effect")), taint.get("timeAdded")
        if not added:
            taint["timeAdded"] = times.get(identity) or now()
        elif identity not in times and (taint.get("key"), added) in old:
            taint["timeAdded"] = now()


TOLERATIONS = 1000
"""Upstream checks no number; this one bounds the work of the scheduler."""
OPERATORS = ("Equal", "Exists")


def default_tolerations(holder: Object) -> None:
    for toleration in rows(holder.get("tolerations")):
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def tolerations_causes(path: str, tolerations: Any) -> list[Cause]:
    return each(path, tolerations, TOLERATIONS, _toleration_causes)


def _toleration_causes(path: str, value: Any) -> list[Cause]:
    held = table(value)
    key, operator, effect = held.get("key") or "", held.get("operator") or "", held.get("effect") or ""
    causes = label_key_causes(f"{path}.key", key) if key else []
    if not operator:
        causes.append(required(f"{path}.operator"))
    elif operator not in OPERATORS:
        causes.append(unsupported(f"{path}.operator", operator, OPERATORS))
    elif operator == "Exists":
        if held.get("value"):
            causes.append(invalid(f"{path}.value", held["value"], "must be empty for operator `Exists`"))
    elif not key:
        pass  # upstream accepts it; it tolerates the taint without a key, of which there is none
    else:
        causes += label_value_causes(f"{path}.value", held.get("value") or "")
    if effect and effect not in EFFECTS:
        causes.append(unsupported(f"{path}.effect", effect, EFFECTS))
    return causes
