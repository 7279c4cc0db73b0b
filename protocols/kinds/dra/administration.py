"""Objects that administrators write: DeviceClass, ResourceSlicePatch and DeviceTaintRule.

- A DeviceClass names selectors and configuration; it is always mutable.
- A ResourceSlicePatch overrides attributes, capacity and taints of the devices that its filter selects.
- A DeviceTaintRule adds one taint to devices selected by name.
"""

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required
from protocols.kinds.check.metadata import conditions
from protocols.kinds.check.table import Causes, Ordered, at_most, causes_of, present, together
from protocols.kinds.dra.names import PLACE, class_name, full_name, keyed
from protocols.kinds.dra.selectors import Budget, configs, selectors, spec_of
from protocols.kinds.dra.slices import is_over
from protocols.kinds.dra.values import KINDS, attribute, capacity_causes, stamp, taint, taints
from protocols.kinds.served.strategy import METADATA, Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, mapping, rows
from protocols.kube.resource_names import is_extended

EXTENDED = "must be a valid extended resource name"


class ClassStrategy(Strategy):
    """DeviceClasses; unchanged selectors are not compiled again on an update."""

    has_generation = True

    def validate_create(self, obj: Object) -> list[Cause]:
        return _class_causes(spec_of(obj), {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return _class_causes(spec_of(new), spec_of(old))


def _extended(path: str, name: str, causes: Causes) -> None:
    if not is_extended(name):
        causes.append(invalid(path, name, EXTENDED))


def _class_causes(spec: Object, before: Object) -> list[Cause]:
    held = selectors(Budget(), before.get("selectors"))
    return causes_of(Ordered(selectors=held, config=configs, extendedResourceName=_extended), "spec", spec)


FIELDS = {"attributes": "DRAAdminControlledDeviceAttributes", "capacity": "DRAAdminControlledDeviceAttributes",
          "taints": "DRADeviceTaints"}  # fmt: skip
"""Fields and the feature gates that enable them."""
NULLABLE = (*KINDS, "null")


class PatchStrategy(Strategy):
    """ResourceSlicePatches; fields of disabled gates are dropped."""

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
        return _patch_causes(new, mapping(_devices(old).get("filter")))


def _devices(obj: Object) -> Object:
    return mapping(spec_of(obj).get("devices"))


def _patch_causes(obj: Object, before: Object) -> list[Cause]:
    if not isinstance(spec_of(obj).get("devices"), dict):
        return [required("spec.devices")]
    path, devices = "spec.devices", _devices(obj)
    names = Ordered(deviceClassName=class_name, **PLACE, selectors=selectors(Budget(), before.get("selectors")))
    causes = causes_of(Ordered(filter=names), path, devices)
    if is_over(path, devices, causes):
        return causes
    for name, value in sorted(mapping(devices.get("attributes")).items()):
        full_name(where := keyed(f"{path}.attributes", name), name, causes)
        attribute(where, value, causes, NULLABLE)
    for name, value in sorted(mapping(devices.get("capacity")).items()):
        full_name(where := keyed(f"{path}.capacity", name), name, causes)
        causes += _amount_causes(where, mapping(value))
    _TAINTS(path, devices, causes)
    return causes


def _amount_causes(path: str, value: Object) -> list[Cause]:
    if value.get("requestPolicy") is not None:
        return [forbidden(f"{path}.requestPolicy", "a patch changes the value only; the policy is the driver's")]
    return capacity_causes(path, value, shared=False)


def _distinct(path: str, values: list[Object], causes: Causes) -> None:
    seen = set()
    for index, value in enumerate(values):
        identity = (value.get("key"), value.get("effect"))
        if identity in seen:
            causes.append(duplicate(f"{path}[{index}]", f"{identity[0]}:{identity[1]}"))
        seen.add(identity)


_TAINTS = Ordered(taints=together(taints, _distinct))
CONDITIONS = 8


def _first_conditions(path: str, values: list[Object], causes: Causes) -> None:
    conditions(path, values[:CONDITIONS], causes)


class RuleStrategy(Strategy):
    """DeviceTaintRules; the taint gets its timeAdded here."""

    has_status = True
    status_keeps = METADATA
    has_generation = True
    rules = Ordered(spec=Ordered("taint", deviceSelector=Ordered(**PLACE), taint=present(taint)))
    status_rules = Ordered(status=Ordered(conditions=together(at_most(CONDITIONS), _first_conditions)))

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        stamp(_taint(obj), [])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        before = _taint(old)
        stamp(_taint(new), [{**taint, "key": new_taint.get("key")} for taint in before for new_taint in _taint(new)])


def _taint(obj: Object) -> list[Object]:
    """Return the taint as a list of at most one."""
    taint = at(obj, "spec", "taint")
    return [taint] if isinstance(taint, dict) else []
