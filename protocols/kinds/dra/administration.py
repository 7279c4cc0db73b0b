"""Objects that administrators write: DeviceClass, ResourceSlicePatch and DeviceTaintRule.

- A DeviceClass names selectors and configuration; it is always mutable.
- A ResourceSlicePatch overrides attributes, capacity and taints of the devices that its filter selects.
- A DeviceTaintRule adds one taint to devices selected by name.
"""

from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required
from protocols.kinds.check.metadata import conditions
from protocols.kinds.check.table import causes_of
from protocols.kinds.dra.names import (
    class_causes,
    driver_causes,
    each,
    full_causes,
    keyed,
    label_causes,
    pool_causes,
    rows,
    table,
)
from protocols.kinds.dra.selectors import Budget, config_causes, selectors_causes, spec_of
from protocols.kinds.dra.slices import ENTRIES
from protocols.kinds.dra.values import (
    KINDS,
    attribute_causes,
    capacity_causes,
    stamp,
    taint_causes,
    taints_causes,
)
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at
from protocols.kube.resource_names import is_extended

EXTENDED = "must be a valid extended resource name"


class ClassStrategy(Strategy):
    has_generation = True

    def validate_create(self, obj: Object) -> list[Cause]:
        return _class_causes(spec_of(obj), {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return _class_causes(spec_of(new), spec_of(old))


def _class_causes(spec: Object, before: Object) -> list[Cause]:
    causes = selectors_causes("spec.selectors", spec.get("selectors"), Budget(), before.get("selectors"))
    causes += config_causes("spec.config", spec.get("config"))
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        causes.append(invalid("spec.extendedResourceName", name, EXTENDED))
    return causes


FIELDS = {"attributes": "DRAAdminControlledDeviceAttributes", "capacity": "DRAAdminControlledDeviceAttributes",
          "taints": "DRADeviceTaints"}  # fmt: skip
"""Fields and the feature gates that enable them."""
NULLABLE = (*KINDS, "null")
FILTERS = {"deviceClassName": class_causes, "driver": driver_causes, "pool": pool_causes, "device": label_causes}


class PatchStrategy(Strategy):
    has_generation = True

    def prepare_create(self, obj: Object) -> None:
        self.prepare_update(obj, {})

    def prepare_update(self, new: Object, old: Object) -> None:
        """Drop fields of disabled gates, unless the stored patch uses them."""
        devices, before = _devices(new), _devices(old)
        for field, gate in FIELDS.items():
            if not before.get(field) and not self.gate(gate):
                devices.pop(field, None)
        stamp(rows(devices.get("taints")), rows(before.get("taints")))

    def validate_create(self, obj: Object) -> list[Cause]:
        return _patch_causes(obj, {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return _patch_causes(new, table(_devices(old).get("filter")))


def _devices(obj: Object) -> Object:
    return table(spec_of(obj).get("devices"))


def _patch_causes(obj: Object, before: Object) -> list[Cause]:
    if not isinstance(spec_of(obj).get("devices"), dict):
        return [required("spec.devices")]
    path, devices = "spec.devices", _devices(obj)
    causes = _filter_causes(f"{path}.filter", table(devices.get("filter")), before)
    attributes, capacity = table(devices.get("attributes")), table(devices.get("capacity"))
    if (count := len(attributes) + len(capacity)) > ENTRIES:
        text = f"the total number of attributes and capacities must not exceed {ENTRIES}"
        return [*causes, invalid(path, count, text)]
    for name in sorted(attributes):
        causes += full_causes(at := keyed(f"{path}.attributes", name), name)
        causes += attribute_causes(at, attributes[name], NULLABLE)
    for name in sorted(capacity):
        causes += full_causes(at := keyed(f"{path}.capacity", name), name)
        causes += _amount_causes(at, table(capacity[name]))
    return causes + _taints_causes(f"{path}.taints", devices.get("taints"))


def _filter_causes(path: str, filter: Object, before: Object) -> list[Cause]:
    """Validate the filter; an empty name is invalid, unlike an absent one."""
    causes: list[Cause] = []
    for name, check in FILTERS.items():
        if filter.get(name) is not None:
            causes += check(f"{path}.{name}", filter[name])
    stored = before.get("selectors")
    return causes + selectors_causes(f"{path}.selectors", filter.get("selectors"), Budget(), stored)


def _amount_causes(path: str, value: Object) -> list[Cause]:
    if value.get("requestPolicy") is not None:
        return [forbidden(f"{path}.requestPolicy", "a patch changes the value only; the policy is the driver's")]
    return capacity_causes(path, value, shared=False)


def _taints_causes(path: str, taints: Any) -> list[Cause]:
    causes, seen = taints_causes(path, taints), set()
    for index, taint in enumerate(rows(taints)):
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            causes.append(duplicate(f"{path}[{index}]", f"{identity[0]}:{identity[1]}"))
        seen.add(identity)
    return causes


CONDITIONS = 8
SELECTOR = {"driver": driver_causes, "pool": pool_causes, "device": label_causes}


class RuleStrategy(Strategy):
    has_status = True
    has_generation = True

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        stamp(_taint(obj), [])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        before = _taint(old)
        stamp(_taint(new), [{**taint, "key": each.get("key")} for taint in before for each in _taint(new)])

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        selector = table(spec.get("deviceSelector"))
        causes: list[Cause] = []
        for name, check in SELECTOR.items():
            if selector.get(name) is not None:
                causes += check(f"spec.deviceSelector.{name}", selector[name])
        if not isinstance(spec.get("taint"), dict):
            return [*causes, required("spec.taint")]
        return causes + taint_causes("spec.taint", spec["taint"])

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        held = rows(at(new, "status", "conditions"))
        return each("status.conditions", held, CONDITIONS, lambda path, value: []) + causes_of(
            conditions, "status.conditions", held[:CONDITIONS]
        )


def _taint(obj: Object) -> list[Object]:
    """Return the taint as a list of at most one."""
    taint = at(obj, "spec", "taint")
    return [taint] if isinstance(taint, dict) else []
