"""Slices, patches, classes and rules as their authors write them, in a line each; and a naive merge to judge by."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from protocols.dra import decode
from protocols.dra.gates import Gates
from protocols.dra.patching.criteria import has_matching_names, judge, selectors_of
from protocols.dra.types import Attribute, Capacity, Device, DeviceClass, Patch, Slice, TaintRule
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.kube.taints import Taint

T0 = "2026-01-01T00:00:00Z"


def values(**named: Any) -> Object:
    """Attributes by the type of their Python value; None is `null: {}`, a text that begins with `v:` a version."""
    return {name.replace("__", "/").replace("_DOT_", "."): value_of(value) for name, value in named.items()}


def value_of(value: Any) -> Object:
    if value is None:
        return {"null": {}}
    if isinstance(value, str) and value.startswith("v:"):
        return {"version": value[2:]}
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}


def attributes(values: Mapping[str, Any]) -> Object:
    return {name: value_of(value) for name, value in values.items()}


def capacities(values: Mapping[str, str]) -> Object:
    return {name: {"value": value} for name, value in values.items()}


def device(
    name: str, attrs: Mapping[str, Any] | None = None, capacity: Mapping[str, str] | None = None, **more: Any
) -> views.Device:
    parts = {"attributes": attributes(attrs or {}), "capacity": capacities(capacity or {})}
    return cast("views.Device", {"name": name, **{key: value for key, value in parts.items() if value}, **more})


def slice_object(
    name: str,
    devices: Iterable[views.Device],
    driver: str = "d.example.com",
    pool: str = "p",
    generation: int = 1,
    **spec: Any,
) -> Object:
    pool_part = {"name": pool, "generation": generation, "resourceSliceCount": spec.pop("count", 1)}
    where = {} if "nodeName" in spec or "nodeSelector" in spec else {"allNodes": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"driver": driver, "pool": pool_part, **where, **spec, "devices": list(devices)},
    }


def patch_object(
    name: str,
    attrs: Mapping[str, Any] | None = None,
    capacity: Mapping[str, str] | None = None,
    taints: Iterable[Object] = (),
    created: str = T0,
    generation: int = 1,
    priority: int | None = None,
    **filter: Any,
) -> Object:
    """`selectors` are texts."""
    if "selectors" in filter:
        filter["selectors"] = [{"cel": {"expression": text}} for text in filter["selectors"]]
    parts = {"filter": filter, "attributes": attributes(attrs or {}), "capacity": capacities(capacity or {})}
    devices = {key: value for key, value in {**parts, "taints": list(taints), "priority": priority}.items() if value}
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourceSlicePatch",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": generation, "creationTimestamp": created},
        "spec": {"devices": devices},
    }


def class_object(name: str, *selectors: str, generation: int = 1) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": generation, "creationTimestamp": T0},
        "spec": {"selectors": [{"cel": {"expression": text}} for text in selectors]},
    }


def taint(key: str, effect: str = "NoSchedule", value: str = "", added: str = T0) -> Object:
    return {"key": key, "effect": effect, "value": value, "timeAdded": added}


def rule_object(name: str, taint: Object, selector: Object | None) -> Object:
    spec = {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector}
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": T0},
        "spec": spec,
    }


def a_slice(name: str, *devices: views.Device, **more: Any) -> Slice:
    return decode.slice_of(slice_object(name, devices, **more))


def a_patch(name: str, *args: Any, **more: Any) -> Patch:
    return decode.patch_of(patch_object(name, *args, **more))


def a_class(name: str, *selectors: str, **more: Any) -> DeviceClass:
    return decode.class_of(class_object(name, *selectors, **more))


def a_rule(name: str, taint: Object, selector: Object | None) -> TaintRule:
    return decode.rule_of(rule_object(name, taint, selector))


def naive(
    slices: Iterable[Slice],
    patches: Iterable[Patch],
    rules: Iterable[TaintRule] = (),
    classes: Mapping[str, DeviceClass] | None = None,
    gates: Gates = Gates(),  # noqa: B008
) -> dict[str, list[Device]]:
    """From nothing, device by device, patch by patch, the lowest first: what the tracker must come to."""
    lowest_first = sorted(patches, key=lambda patch: patch.rank, reverse=True)
    return {
        obj.name: [
            _naive(obj, device, lowest_first, sorted(rules, key=lambda r: r.name), classes or {}, gates)
            for device in obj.devices
        ]
        for obj in slices
    }


def _naive(
    each: Slice,
    device: Device,
    patches: list[Patch],
    rules: list[TaintRule],
    classes: Mapping[str, DeviceClass],
    gates: Gates,
) -> Device:
    attrs: dict[str, Attribute] = dict(device.attributes)
    amounts = dict(device.capacity)
    own = {(t.key, t.effect): t for t in device.taints}
    added: dict[tuple[str, str], Taint] = {}
    for patch in [patch for patch in patches if _applies(each, device, patch, classes)]:
        if gates.attributes:
            for name, value in patch.attributes.items():
                if value is None:
                    attrs.pop(name, None)
                else:
                    attrs[name] = value
            for name, amount in patch.capacity.items():
                amounts[name] = Capacity(amount, device.capacity[name].policy if name in device.capacity else None)
        if gates.taints:
            mine = {(t.key, t.effect): t for t in patch.taints}
            added = {**mine, **{key: t for key, t in added.items() if key not in mine}}
    taints = [added.get(key, t) for key, t in own.items()] + [t for key, t in added.items() if key not in own]
    if gates.taints:
        taints += [
            rule.taint
            for rule in rules
            if rule.selector and has_matching_names(rule.selector, each.driver, each.pool, device.name)
        ]
    return Device(device.name, attrs, amounts, tuple(taints), device.extras)


def _applies(each: Slice, device: Device, patch: Patch, classes: Mapping[str, DeviceClass]) -> bool:
    selectors = selectors_of(patch, classes)
    if selectors is None or not has_matching_names(patch.filter, each.driver, each.pool, device.name):
        return False
    return all(judge(each.driver, selector.expression, device) is True for selector in selectors)
