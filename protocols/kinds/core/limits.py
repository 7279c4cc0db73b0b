"""LimitRanges: defaults and bounds of what pods and claims of a namespace request. Messages equal upstream's."""

import uuid

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import invalid, required
from protocols.kinds.check.table import Causes, Check, Ordered, each, entries, never, texts
from protocols.kinds.core.quota_names import standard_name
from protocols.kinds.pods.spec.resources import HUGE, name_faults
from protocols.kinds.served.columns import CREATED, NAME
from protocols.kinds.served.row import Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import items
from protocols.kube.quantity import NANO, Quantity, parse_quantity
from protocols.kube.resource_names import is_native

CONTAINER, POD, CLAIM = "Container", "Pod", "PersistentVolumeClaim"
TYPES = (CONTAINER, POD, CLAIM)
MAPS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
NOT_FOR_PODS = "may not be specified when `type` is 'Pod'"
NO_STORAGE = "either minimum or maximum storage value is required, but neither was provided"
LARGEST_MILLI = 2**63 // 1000


def _type_faults(kind: str) -> list[str]:
    faults = qualified_faults(kind)
    if not faults and "/" not in kind and kind not in TYPES:
        return ["must be a standard limit type or fully qualified"]
    return faults


def _maps(names: Check, defaults: Check) -> Ordered:
    """Return the checks of an item, of which `defaults` are those of its maps of defaults."""
    return Ordered("type", type=texts(_type_faults, empty=True), max=names, min=names, default=defaults,
                   defaultRequest=defaults, maxLimitRequestRatio=names)  # fmt: skip


_of_pods, _of_others = entries(texts(name_faults, empty=True)), entries(standard_name)
BY_TYPE = {POD: _maps(_of_pods, never(NOT_FOR_PODS)), CONTAINER: _maps(_of_pods, _of_pods)}
OTHER = _maps(_of_others, _of_others)


def _limit(path: str, item: Object, causes: Causes) -> None:
    kind = item.get("type") or ""
    BY_TYPE.get(kind, OTHER)(path, item, causes)
    maps = {field: amounts for field, amounts in item.items() if field in MAPS}
    if kind == CLAIM and "storage" not in {**maps.get("min", {}), **maps.get("max", {})}:
        causes.append(required(f"{path}.limits", NO_STORAGE))
    for name in dict.fromkeys(name for field in MAPS for name in maps.get(field, ())):
        amounts = {field: parse_quantity(values[name]) for field, values in maps.items() if name in values}
        _order(path, name, amounts, causes)
        _ratio(path, name, amounts, causes)
        _one_amount(path, name, amounts, causes)


ORDERS = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)
"""The smaller and the greater map, the field to blame, the value to show, and the titles of both."""


def _order(path: str, name: str, amounts: dict[str, Quantity], causes: Causes) -> None:
    for low, high, blamed, shown, low_title, high_title in ORDERS:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            text = f"{low_title} {amounts[low]} is greater than {high_title} {amounts[high]}"
            causes.append(invalid(f"{path}.{blamed}[{name}]", str(amounts[shown]), text))


def _ratio(path: str, name: str, amounts: dict[str, Quantity], causes: Causes) -> None:
    ratio, path = amounts.get("maxLimitRequestRatio"), f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is None:
        return
    if ratio.nanos < NANO:
        causes.append(invalid(path, str(ratio), f"ratio {ratio} is less than 1"))
    low, high = amounts.get("min"), amounts.get("max")
    if low is None or high is None or low.nanos <= 0:
        return
    exact = all(amount.value() < LARGEST_MILLI for amount in (ratio, low, high))
    greatest = high.milli() / low.milli() if exact else high.value() / low.value()
    if (ratio.milli() / 1000 if exact else float(ratio.value())) > greatest:
        causes.append(invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {greatest:f}"))


def _one_amount(path: str, name: str, amounts: dict[str, Quantity], causes: Causes) -> None:
    """Require one amount of what cannot be overcommitted: huge pages and extended resources."""
    limit, request = amounts.get("default"), amounts.get("defaultRequest")
    if limit is None or request is None or limit == request or (is_native(name) and not name.startswith(HUGE)):
        return
    text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
    causes.append(invalid(f"{path}.defaultRequest[{name}]", str(request), text))


class _LimitRangeStrategy(Strategy):
    rules = Ordered(spec=Ordered(limits=each(_limit, key=lambda item: item.get("type") or "", at=".type")))

    def default(self, obj: Object) -> None:
        for item in items(obj, "spec", "limits"):
            if item.get("type") == CONTAINER:
                _default_item(item)

    def prepare_create(self, obj: Object) -> None:
        """Store no limits as null, as upstream's conversion does, and name a range that has no name."""
        obj["metadata"]["name"] = obj["metadata"].get("name") or str(uuid.uuid4())
        spec = obj.get("spec") or {}
        if spec.get("limits") == []:
            spec["limits"] = None

    def prepare_update(self, new: Object, old: Object) -> None:
        self.prepare_create(new)


def _default_item(item: Object) -> None:
    """Default limits to the maximum, and requests to the limit, else to the minimum."""
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    for name, amounts in (("default", limits), ("defaultRequest", requests)):
        if amounts:
            item[name] = amounts


LIMITRANGES = Served(
    **asdict(kinds.LIMITRANGES),
    strategy=_LimitRangeStrategy(),
    columns=(NAME, CREATED),
)
