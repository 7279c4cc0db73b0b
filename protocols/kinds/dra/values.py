"""Validate attributes, capacities, taints and tolerations."""

import itertools
from typing import Any

from protocols.cel.libraries.quantities import parse_version
from protocols.kinds.check.causes import Cause, forbidden, invalid, required
from protocols.kinds.check.table import Causes, Ordered, each, needed, one_of, together
from protocols.kinds.check.values import label_key, label_value, longest
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import mapping, rows
from protocols.kube.quantity import Quantity, parse_quantity
from protocols.kube.times import now

KINDS = ("int", "bool", "string", "version")
VALUE_LENGTH = 64
TAINTS, VALID_VALUES = 16, 10
EFFECTS = ("NoExecute", "NoSchedule", "None")
ONE_VALUE = "exactly one value must be specified"
ONE_POLICY = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
SEMVER = "must be a string compatible with semver.org spec 2.0.0"


def _semver(path: str, text: str, causes: Causes) -> None:
    if not _is_version(text):
        causes.append(invalid(path, text, SEMVER))


_VALUE = Ordered(string=longest(VALUE_LENGTH), version=together(longest(VALUE_LENGTH), _semver))


def attribute(path: str, value: Object, causes: Causes, kinds: tuple[str, ...] = KINDS) -> None:
    """Check an attribute: exactly one field of `kinds` has a value."""
    _VALUE(path, value, causes)
    given = [kind for kind in kinds if value.get(kind) is not None]
    if len(given) != 1:
        causes.append(invalid(path, value if given else "", ONE_VALUE))


def _is_version(text: str) -> bool:
    try:
        parse_version(text)
    except ValueError:
        return False
    return True


def capacity_causes(path: str, value: Any, shared: bool) -> list[Cause]:
    """Validate a capacity; a request policy requires `shared`, a device that allows several allocations."""
    amount = _quantity(mapping(value).get("value")) or Quantity(0)
    policy = mapping(value).get("requestPolicy")
    if policy is None:
        return []
    if not shared:
        return [forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")]
    return _policy_causes(f"{path}.requestPolicy", mapping(policy), amount)


def _quantity(value: Any) -> Quantity | None:
    try:
        return None if value is None else parse_quantity(value)
    except QuantityInvalid:
        return None


def _policy_causes(path: str, policy: Object, amount: Quantity) -> list[Cause]:
    values, bounds, default = policy.get("validValues"), policy.get("validRange"), _quantity(policy.get("default"))
    if values and bounds is not None:
        return [forbidden(path, ONE_POLICY)]
    if not values and bounds is None:
        return []
    name = "validValues" if values else "validRange"
    if default is None:
        return [required(f"{path}.default", f"required when {name} is defined")]
    if values:
        return _values_causes(f"{path}.{name}", list(map(_quantity, values)), default, amount)
    return _range_causes(f"{path}.{name}", mapping(bounds), default, amount)


def _values_causes(path: str, values: list[Quantity | None], default: Quantity, amount: Quantity) -> list[Cause]:
    def fits(at: str, value: Quantity, causes: Causes) -> None:
        if value > amount:
            causes.append(invalid(at, str(value), f"option is larger than capacity value: {amount}"))

    options = [value or Quantity(0) for value in values]
    causes = [
        invalid(f"{path}[{index}]", str(value), "values must be sorted in ascending order")
        for index, (before, value) in enumerate(itertools.pairwise(options), 1)
        if before > value
    ]
    each(fits, limit=VALID_VALUES, key=str)(path, options, causes)
    if len(options) > VALID_VALUES or default not in options:
        causes.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))
    return causes


def _range_causes(path: str, bounds: Object, default: Quantity, amount: Quantity) -> list[Cause]:
    low, high, step = (_quantity(bounds.get(name)) for name in ("min", "max", "step"))
    if low is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    causes = [
        invalid(f"{path}.{name}", str(value), f"{name} is larger than capacity value: {amount}")
        for name, value in (("min", low), ("max", high))
        if value is not None and value > amount
    ]
    if default < low:
        causes.append(invalid(f"{path}.min", str(default), f"default is less than min: {low}"))
    if high is not None and low > high:
        causes.append(invalid(f"{path}.max", str(low), f"min is larger than max: {high}"))
    if high is not None and default > high:
        causes.append(invalid(f"{path}.max", str(default), f"default is more than max: {high}"))
    limits = [default] if high is None else [default, high]
    return causes if step is None else causes + _step_causes(f"{path}.step", (low, step), limits, amount)


def _step_causes(path: str, steps: tuple[Quantity, Quantity], limits: list[Quantity], amount: Quantity) -> list[Cause]:
    """Validate a step: fractions are rounded up to whole units, as the allocator does."""
    low, step = steps
    if step.nanos == 0:  # upstream divides by it and answers 500
        return [invalid(path, str(step), "must not be zero")]
    causes = []
    if (first := low + step) > amount:
        causes.append(invalid(path, str(step), f"one step {first} is larger than capacity value: {amount}"))
    text = f"value is not a multiple of a given step ({step}) from ({low})"
    width = abs(step.value()) or 1
    odd = [value for value in limits if (value.value() - low.value()) % width]
    return causes + [invalid(path, str(value), text) for value in odd]


taint = Ordered("key value effect", key=label_key, value=label_value, effect=needed(one_of(*EFFECTS)))
taints = each(taint, limit=TAINTS)


def stamp(written: list[Object], before: list[Object]) -> None:
    """Set timeAdded on taints.

    A taint without a time gets the current second; with the same key and effect as before, it retains its time, so
    writing it again changes nothing. A changed effect sets the current time, even if the old time was sent.
    """
    times = {(taint.get("key"), taint.get("effect")): taint.get("timeAdded") for taint in before}
    old = {(taint.get("key"), taint.get("timeAdded")) for taint in before}
    for taint in written:
        identity, added = (taint.get("key"), taint.get("effect")), taint.get("timeAdded")
        if not added:
            taint["timeAdded"] = times.get(identity) or now()
        elif identity not in times and (taint.get("key"), added) in old:
            taint["timeAdded"] = now()


TOLERATIONS = 1000
"""Upstream checks no number; this one bounds the work of the scheduler."""


def default_tolerations(holder: Object) -> None:
    """Set the operator of tolerations; Equal, as for taints of nodes."""
    for toleration in rows(holder.get("tolerations")):
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


_operator, _effect = needed(one_of("Equal", "Exists")), one_of(*EFFECTS)


def _toleration(path: str, held: Object, causes: Causes) -> None:
    key, operator, value = held.get("key") or "", held.get("operator") or "", held.get("value") or ""
    if key:
        label_key(f"{path}.key", key, causes)
    _operator(f"{path}.operator", operator, causes)
    if operator == "Exists" and value:
        causes.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal" and key:  # without a key upstream accepts any value: no taint has an empty key
        label_value(f"{path}.value", value, causes)
    _effect(f"{path}.effect", held.get("effect") or "", causes)


tolerations = each(_toleration, limit=TOLERATIONS)
