"""From API objects (JSON of resource.k8s.io/v1, v1alpha3 for patches and rules) to the types. Pure.

Wrong shapes raise ObjectUnreadable, never anything else. Equal attributes and quantities are read into the same objects
where that is cheap, for thousands of devices say the same things.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from protocols.dra import types
from protocols.dra.gates import Gates
from protocols.dra.types import (
    EVERYTHING,
    PLAIN,
    Attribute,
    Capacity,
    CounterSet,
    CounterUse,
    Device,
    DeviceClass,
    Extras,
    Filter,
    ObjectUnreadable,
    Patch,
    Reach,
    RequestPolicy,
    Slice,
    TaintRule,
)
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.quantity import Quantity, parse_quantity
from protocols.kube.taints import Taint
from protocols.kube.times import parse_time

Obj = Mapping[str, Any]
T = TypeVar("T")
V = TypeVar("V")

SHARED = 8192
"""Most cached values of attributes and capacities; devices with equal values share them."""
_NOTHING: Mapping[str, Any] = {}


def slice_of(obj: Obj) -> Slice:
    """Read a ResourceSlice; raises ObjectUnreadable."""
    return _read("ResourceSlice", obj, _slice)


def slice_reader(gates: Gates) -> Callable[[Obj], Slice]:
    """Return the reader of slices; without shares it reads them as if no device allowed multiple allocations."""
    return slice_of if gates.shares else _exclusive_slice_of


def _exclusive_slice_of(obj: Obj) -> Slice:
    return _read("ResourceSlice", obj, _exclusive_slice)


def class_of(obj: Obj) -> DeviceClass:
    """Read a DeviceClass; raises ObjectUnreadable."""
    return _read("DeviceClass", obj, _class)


def patch_of(obj: Obj) -> Patch:
    """Read a ResourceSlicePatch; raises ObjectUnreadable."""
    return _read("ResourceSlicePatch", obj, _patch)


def rule_of(obj: Obj) -> TaintRule:
    """Read a DeviceTaintRule; raises ObjectUnreadable."""
    return _read("DeviceTaintRule", obj, _rule)


def _read(kind: str, obj: Obj, read: Callable[[Any, Any], T]) -> T:
    try:
        return read(obj["metadata"], obj.get("spec") or _NOTHING)
    except (*SHAPE_ERRORS, NodeplaneError) as error:
        name = str((obj.get("metadata") or _NOTHING).get("name") or "") if isinstance(obj, Mapping) else ""
        raise ObjectUnreadable(
            f"{kind} {name!r} cannot be read: {error!r:.200}; write it again, or delete it"
        ) from None


def _slice(meta: views.ObjectMeta, spec: views.ResourceSliceSpec) -> Slice:
    driver, pool = sys.intern(spec["driver"]), spec["pool"]
    return Slice(
        meta["name"],
        meta.get("uid") or "",
        driver,
        sys.intern(pool["name"]),
        _int(pool.get("generation") or 0),
        _int(pool.get("resourceSliceCount") or 0),
        _reach(spec, bool(spec.get("perDeviceNodeSelection"))),
        tuple([device_of(device, driver) for device in spec.get("devices") or ()]),
        tuple([CounterSet(counters["name"], _counters(counters)) for counters in spec.get("sharedCounters") or ()]),
    )


def _exclusive_slice(meta: views.ObjectMeta, spec: views.ResourceSliceSpec) -> Slice:
    devices: list[views.Device] = [
        {**device, "allowMultipleAllocations": False} for device in spec.get("devices") or ()
    ]
    return _slice(meta, {**spec, "devices": devices})


def device_of(obj: views.Device, driver: str) -> Device:
    """One element of spec.devices."""
    attributes, capacity = obj.get("attributes"), obj.get("capacity")
    return Device(
        sys.intern(obj["name"]),
        _named(driver, attributes, _attribute) if attributes else _NOTHING,
        _named(driver, capacity, _capacity) if capacity else _NOTHING,
        _taints_of(obj),
        _extras(obj, driver),
    )


def _named(driver: str, values: Mapping[str, V], read: Callable[[V], T | None]) -> dict[str, T]:
    """Return values by qualified name; if a driver wrote both spellings of a name, the qualified one counts."""
    by_name: dict[str, T] = {}
    for name, value in values.items():
        full = qualified(driver, name)
        if (full == name or full not in values) and (decoded := read(value)) is not None:
            by_name[full] = decoded
    return by_name


@functools.lru_cache(maxsize=SHARED)
def qualified(driver: str, name: str) -> str:
    """Return the name `domain/id` of a name in a slice of `driver`."""
    return name if "/" in name else sys.intern(f"{driver}/{name}")


def _attribute(obj: Obj) -> Attribute | None:
    """None for kinds that are not known here: such an attribute is as if it were not published."""
    for kind, value in obj.items():
        if kind in _KINDS and type(value) is _KINDS[kind]:
            return _cached_attribute(kind, value)
    return None


_KINDS: dict[str, type] = {types.INT: int, types.BOOL: bool, types.STRING: str, types.VERSION: str}


@functools.lru_cache(maxsize=SHARED)
def _cached_attribute(kind: str, value: bool | int | str) -> Attribute:
    return Attribute(kind, value)


def _capacity(obj: views.DeviceCapacity) -> Capacity:
    policy = obj.get("requestPolicy")
    return Capacity(parse_quantity(obj["value"]), _policy(policy)) if policy else _plain_capacity(obj["value"])


@functools.lru_cache(maxsize=SHARED, typed=True)
def _plain_capacity(value: str | int | float) -> Capacity:
    return Capacity(parse_quantity(value))


def _policy(obj: views.CapacityRequestPolicy) -> RequestPolicy:
    bounds = obj.get("validRange") or _NOTHING
    return RequestPolicy(
        _quantity(obj.get("default")),
        tuple([parse_quantity(value) for value in obj.get("validValues") or ()]),
        _quantity(bounds.get("min")),
        _quantity(bounds.get("max")),
        _quantity(bounds.get("step")),
    )


def _quantity(value: Any) -> Quantity | None:
    return None if value is None else parse_quantity(value)


def _counters(obj: views.CounterSet | views.DeviceCounterConsumption) -> dict[str, Quantity]:
    return {name: parse_quantity(counter["value"]) for name, counter in (obj.get("counters") or _NOTHING).items()}


def _taints_of(obj: views.Device | views.DevicePatch) -> tuple[Taint, ...]:
    taints = obj.get("taints")
    return tuple([_taint_of(taint) for taint in taints]) if taints else ()


def _taint_of(obj: views.DeviceTaint) -> Taint:
    key, value, effect = sys.intern(obj["key"]), sys.intern(obj.get("value") or ""), sys.intern(obj["effect"])
    return Taint(key, value, effect, obj.get("timeAdded") or "")


_RARE = (
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
    "allowMultipleAllocations",
)


def _extras(obj: views.Device, driver: str) -> Extras:
    if not any(name in obj for name in _RARE):
        return PLAIN
    uses = obj.get("consumesCounters") or ()
    shared = bool(obj.get("allowMultipleAllocations"))
    return Extras(
        tuple([CounterUse(use["counterSet"], _counters(use)) for use in uses]),
        _reach(obj) if any(name in obj for name in ("nodeName", "nodeSelector", "allNodes")) else None,
        bool(obj.get("bindsToNode")),
        tuple(obj.get("bindingConditions") or ()),
        tuple(obj.get("bindingFailureConditions") or ()),
        shared,
        _bare(obj.get("capacity") or _NOTHING, driver) if shared else frozenset(),
    )


def _bare(capacity: Obj, driver: str) -> frozenset[str]:
    names = ((name, qualified(driver, name)) for name in capacity)
    return frozenset(full for name, full in names if name != full and full not in capacity)


def _reach(obj: views.ResourceSliceSpec | views.Device, by_device: bool = False) -> Reach:
    return Reach(sys.intern(obj.get("nodeName") or ""), obj.get("nodeSelector"), bool(obj.get("allNodes")), by_device)


def _class(meta: views.ObjectMeta, spec: views.DeviceClassSpec) -> DeviceClass:
    return DeviceClass(
        meta["name"],
        meta.get("uid") or "",
        _int(meta.get("generation") or 0),
        selectors_of(spec),
        tuple(spec.get("config") or ()),
        spec.get("extendedResourceName") or "",
        meta.get("creationTimestamp") or "",
    )


def selectors_of(obj: Obj) -> tuple[str, ...]:
    """Return the CEL expressions of `selectors`; an empty one for a selector of another type."""
    selectors: list[views.DeviceSelector] | None = obj.get("selectors")
    return (
        tuple([str((selector.get("cel") or _NOTHING).get("expression") or "") for selector in selectors])
        if selectors
        else ()
    )


def _patch(meta: views.ObjectMeta, spec: views.ResourceSlicePatchSpec) -> Patch:
    devices = spec["devices"]
    attributes, capacity = devices.get("attributes") or _NOTHING, devices.get("capacity") or _NOTHING
    return Patch(
        meta["name"],
        meta.get("uid") or "",
        _int(meta.get("generation") or 0),
        _created(meta),
        _filter(devices.get("filter") or {}),
        _int(devices.get("priority") or 0),
        {sys.intern(name): _nullable(name, value) for name, value in attributes.items()},
        {sys.intern(name): parse_quantity(value["value"]) for name, value in capacity.items()},
        _taints_of(devices),
    )


def _nullable(name: str, value: views.NullableDeviceAttribute) -> Attribute | None:
    """Return None for the value that removes the attribute; a member that is JSON null is not set."""
    given = [member for member, each in value.items() if each is not None]
    if len(given) > 1:
        raise ObjectUnreadable(f"attribute {name} sets {' and '.join(given)}; exactly one value must be specified")
    return None if given == ["null"] else _known(name, value)


def _known(name: str, value: views.NullableDeviceAttribute) -> Attribute:
    if (attribute := _attribute(value)) is None:
        raise ObjectUnreadable(f"attribute {name} has no value")
    return attribute


def _filter(obj: views.DevicePatchFilter) -> Filter:
    if not obj:
        return EVERYTHING
    return Filter(obj.get("deviceClassName"), obj.get("driver"), obj.get("pool"), obj.get("device"), selectors_of(obj))


def _rule(meta: views.ObjectMeta, spec: views.DeviceTaintRuleSpec) -> TaintRule:
    selector = spec.get("deviceSelector")
    return TaintRule(
        meta["name"],
        meta.get("uid") or "",
        _int(meta.get("generation") or 0),
        _taint_of(spec["taint"]),
        None
        if selector is None
        else Filter(None, selector.get("driver"), selector.get("pool"), selector.get("device")),
    )


def _created(meta: views.ObjectMeta) -> float:
    text = meta.get("creationTimestamp")
    return parse_time(text) if text else 0.0


def _int(value: Any) -> int:
    if type(value) is not int:
        raise ObjectUnreadable(f"{value!r:.64} is not a whole number")
    return value
