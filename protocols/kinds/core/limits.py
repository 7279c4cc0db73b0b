"""LimitRanges: defaults and bounds of what pods and claims of a namespace request. Messages equal upstream's."""

from collections.abc import Iterator

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required
from protocols.kinds.core.quota_names import standard_faults
from protocols.kinds.pods.spec.resources import HUGE, name_faults
from protocols.kinds.served.columns import CREATED, NAME
from protocols.kinds.served.row import Served
from protocols.kinds.served.strategy import Strategy
from protocols.kube.errors import QuantityInvalid
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
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
LARGEST_MILLI = 2**63 // 1000
LONGEST_NAME = 317
"""Characters of a prefix and a name: rules of longer names are not looked up in the cache."""
Amounts = dict[str, dict[str, Quantity]]


class _LimitRangeStrategy(Strategy):
    def default(self, obj: Object) -> None:
        for item in items(obj, "spec", "limits"):
            if item.get("type") == CONTAINER and all(isinstance(item.get(name) or {}, dict) for name in MAPS):
                _default_item(item)

    def prepare_create(self, obj: Object) -> None:
        """Store no limits as null, as upstream's conversion does."""
        spec = obj.get("spec")
        if isinstance(spec, dict) and spec.get("limits") == []:
            spec["limits"] = None

    def prepare_update(self, new: Object, old: Object) -> None:
        self.prepare_create(new)

    def validate_create(self, obj: Object) -> list[Cause]:
        return list(_causes(items(obj, "spec", "limits")))


def _default_item(item: Object) -> None:
    """Default limits to the maximum, and requests to the limit, else to the minimum."""
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    for name, amounts in (("default", limits), ("defaultRequest", requests)):
        if amounts:
            item[name] = amounts


def _causes(limits: list[Object]) -> Iterator[Cause]:
    seen = set()
    for index, item in enumerate(limits):
        path, kind = f"spec.limits[{index}]", str(item.get("type") or "")
        yield from _type_causes(f"{path}.type", kind)
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from _item_causes(path, kind, item)


def _type_causes(path: str, kind: str) -> list[Cause]:
    faults = qualified_faults(kind)
    if not faults and "/" not in kind and kind not in TYPES:
        faults = ["must be a standard limit type or fully qualified"]
    return [invalid(path, kind, fault) for fault in faults]


def _item_causes(path: str, kind: str, item: Object) -> Iterator[Cause]:
    amounts: Amounts = {}
    for field in MAPS:
        given = item.get(field) or {}
        if kind == POD and field in ("default", "defaultRequest"):
            if given:
                yield forbidden(f"{path}.{field}", NOT_FOR_PODS)
            continue
        amounts[field] = {}
        for name, value in given.items():
            yield from (invalid(f"{path}.{field}[{name}]", name, fault) for fault in _name_faults(kind, name))
            try:
                amounts[field][name] = parse_quantity(value)
            except QuantityInvalid:
                yield invalid(f"{path}.{field}[{name}]", value, QUANTITY_TEXT)
    if kind == CLAIM and "storage" not in {**amounts["min"], **amounts["max"]}:
        yield required(f"{path}.limits", NO_STORAGE)
    for name in dict.fromkeys(name for given in amounts.values() for name in given):
        held = {field: given[name] for field, given in amounts.items() if name in given}
        yield from _order_causes(path, name, held)
        yield from _ratio_causes(path, name, held)
        yield from _equal_causes(path, name, held)


def _name_faults(kind: str, name: str) -> tuple[str, ...]:
    if kind not in (POD, CONTAINER):
        return standard_faults(name)
    return name_faults(name) if len(name) <= LONGEST_NAME else tuple(qualified_faults(name))


ORDERS = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)
"""The smaller and the greater map, the field to blame, the value to show, and the titles of both."""


def _order_causes(path: str, name: str, held: dict[str, Quantity]) -> Iterator[Cause]:
    for low, high, blamed, shown, low_title, high_title in ORDERS:
        if low in held and high in held and held[low] > held[high]:
            text = f"{low_title} {held[low]} is greater than {high_title} {held[high]}"
            yield invalid(f"{path}.{blamed}[{name}]", str(held[shown]), text)


def _ratio_causes(path: str, name: str, held: dict[str, Quantity]) -> Iterator[Cause]:
    ratio, where = held.get("maxLimitRequestRatio"), f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is None:
        return
    if ratio.nanos < NANO:
        yield invalid(where, str(ratio), f"ratio {ratio} is less than 1")
    if "min" not in held or "max" not in held or held["min"].nanos <= 0:
        return
    low, high = held["min"], held["max"]
    exact = all(each.value() < LARGEST_MILLI for each in (ratio, low, high))
    greatest = high.milli() / low.milli() if exact else high.value() / low.value()
    if (ratio.milli() / 1000 if exact else float(ratio.value())) > greatest:
        yield invalid(where, str(ratio), f"ratio {ratio} is greater than max/min = {greatest:f}")


def _equal_causes(path: str, name: str, held: dict[str, Quantity]) -> Iterator[Cause]:
    """Require one amount of what cannot be overcommitted: huge pages and extended resources."""
    if (is_native(name) and not name.startswith(HUGE)) or not held.keys() >= {"default", "defaultRequest"}:
        return
    limit, request = held["default"], held["defaultRequest"]
    if limit != request:
        text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", str(request), text)


LIMITRANGES = Served(
    **asdict(kinds.LIMITRANGES),
    strategy=_LimitRangeStrategy(),
    columns=(NAME, CREATED),
)
