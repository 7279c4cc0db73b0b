"""ResourceSlicePatch: administrators override attributes, capacity and taints of selected devices."""

from typing import Any

from actors.apiserver.api.causes import Cause, duplicate, forbidden, invalid, required
from actors.apiserver.api.objects import Obj
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.dra.lists import rows, table
from actors.apiserver.resources.dra.names import (
    class_causes,
    driver_causes,
    full_causes,
    keyed,
    label_causes,
    pool_causes,
)
from actors.apiserver.resources.dra.selectors import Budget, selectors_causes, spec_of
from actors.apiserver.resources.dra.slices import ENTRIES
from actors.apiserver.resources.dra.values import KINDS, attribute_causes, capacity_causes, stamp, taints_causes

FIELDS = {"attributes": "DRAAdminControlledDeviceAttributes", "capacity": "DRAAdminControlledDeviceAttributes",
          "taints": "DRADeviceTaints"}  # fmt: skip
"""Fields and the feature gates that enable them."""
NULLABLE = (*KINDS, "null")
FILTERS = {"deviceClassName": class_causes, "driver": driver_causes, "pool": pool_causes, "device": label_causes}


class PatchStrategy(Strategy):
    has_generation = True

    def prepare_create(self, obj: Obj) -> None:
        self.prepare_update(obj, {})

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Drop fields of disabled gates, unless the stored patch uses them."""
        devices, before = _devices(new), _devices(old)
        for field, gate in FIELDS.items():
            if not before.get(field) and not self.gate(gate):
                devices.pop(field, None)
        stamp(rows(devices.get("taints")), rows(before.get("taints")))

    def validate_create(self, obj: Obj) -> list[Cause]:
        return _causes(obj, {})

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        return _causes(new, table(_devices(old).get("filter")))


def _devices(obj: Obj) -> Obj:
    return table(spec_of(obj).get("devices"))


def _causes(obj: Obj, before: Obj) -> list[Cause]:
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


def _filter_causes(path: str, filter: Obj, before: Obj) -> list[Cause]:
    """Validate the filter; an empty name is invalid, unlike an absent one."""
    causes: list[Cause] = []
    for name, check in FILTERS.items():
        if filter.get(name) is not None:
            causes += check(f"{path}.{name}", filter[name])
    stored = before.get("selectors")
    return causes + selectors_causes(f"{path}.selectors", filter.get("selectors"), Budget(), stored)


def _amount_causes(path: str, value: Obj) -> list[Cause]:
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
