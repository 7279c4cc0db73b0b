"""ResourceSlice: validation of published devices and shared counters."""

from typing import Any

from protocols.kinds.check.causes import Cause, invalid, required, too_many
from protocols.kinds.dra.names import (
    driver_causes,
    each,
    keyed,
    label_causes,
    label_key_causes,
    pool_causes,
    qualified_causes,
    repeated,
    repeated_names,
    rows,
    table,
)
from protocols.kinds.dra.selectors import spec_of
from protocols.kinds.dra.values import attribute_causes, capacity_causes, stamp, taints_causes
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults

SETS, USES, COUNTERS = 8, 2, 32


def counter_sets_causes(path: str, sets: Any) -> list[Cause]:
    return _named(path, sets, SETS, "name")


def consumption_causes(path: str, uses: Any) -> list[Cause]:
    return _named(path, uses, USES, "counterSet")


def _named(path: str, values: Any, limit: int, name: str) -> list[Cause]:
    def check(at: str, value: Any) -> list[Cause]:
        held = table(value)
        causes = label_causes(f"{at}.{name}", held[name]) if held.get(name) else [required(f"{at}.{name}")]
        return causes + _counters_causes(f"{at}.counters", table(held.get("counters")))

    causes = each(path, values, limit, check)
    if len(rows(values)) > limit:
        return causes
    return causes + [
        cause._replace(field=f"{cause.field}.{name}")
        for cause in repeated(path, [row.get(name) for row in rows(values)])
    ]


def _counters_causes(path: str, counters: dict[str, Any]) -> list[Cause]:
    if not counters:
        return [required(path)]
    if len(counters) > COUNTERS:
        return [too_many(path, len(counters), COUNTERS)]
    causes = []
    for name in sorted(counters):
        at = keyed(path, name)
        causes += label_causes(at, name) if name else [invalid(at, name, "must not be empty")]
        if table(counters[name]).get("value") is None:
            causes.append(required(f"{at}.value"))
    return causes


DEVICES, RICH_DEVICES, ENTRIES, CONDITIONS = 128, 64, 32, 4
PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
OWN_PLACES = PLACES[:3]
ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
ONE_OWN_PLACE = (
    "exactly one of `nodeName`, `nodeSelector` or `allNodes` is required when `perDeviceNodeSelection` is set to true"
)
NO_OWN_PLACE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
SEVERAL = ", but multiple fields are set"
IMMUTABLE = "field is immutable"
TAINTS_GATE, BINDING_GATE, SHARES_GATE = "DRADeviceTaints", "DRADeviceBindingConditions", "DRAConsumableCapacity"
BINDING_FIELDS = ("bindsToNode", "bindingConditions", "bindingFailureConditions")


class SliceStrategy(Strategy):
    has_generation = True

    def prepare_create(self, obj: Object) -> None:
        self.prepare_update(obj, {})

    def prepare_update(self, new: Object, old: Object) -> None:
        """Drop fields of disabled gates, unless the stored slice has some; set missing timestamps of taints."""
        if not self.gate(BINDING_GATE):
            drop_binding(rows(spec_of(new).get("devices")), rows(spec_of(old).get("devices")))
        if not self.gate(SHARES_GATE):
            _drop_sharing(rows(spec_of(new).get("devices")), rows(spec_of(old).get("devices")))
        used = any(device.get("taints") for device in rows(spec_of(old).get("devices")))
        if not used and not self.gate(TAINTS_GATE):
            for device in rows(spec_of(new).get("devices")):
                device.pop("taints", None)
        _drop_alpha(new)
        before = {device.get("name"): rows(device.get("taints")) for device in rows(spec_of(old).get("devices"))}
        for device in rows(spec_of(new).get("devices")):
            stamp(rows(device.get("taints")), before.get(device.get("name"), []))

    def validate_create(self, obj: Object) -> list[Cause]:
        return slice_causes(spec_of(obj))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(new), spec_of(old)
        fixed = [
            ("spec.driver", spec.get("driver"), before.get("driver")),
            ("spec.pool.name", table(spec.get("pool")).get("name"), table(before.get("pool")).get("name")),
            ("spec.nodeName", spec.get("nodeName"), before.get("nodeName")),
        ]
        return slice_causes(spec) + [invalid(path, mine, IMMUTABLE) for path, mine, was in fixed if mine != was]


ALPHA_ATTRIBUTES = ("ints", "bools", "strings", "versions")
"""Lists of values, which upstream drops while DRAListTypeAttributes is disabled; nothing here allocates by them."""


def _drop_alpha(obj: Object) -> None:
    for device in rows(spec_of(obj).get("devices")):
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in table(device.get("attributes")).values():
            for field in ALPHA_ATTRIBUTES:
                table(attribute).pop(field, None)


def _drop_sharing(new: list[Object], old: list[Object]) -> None:
    """Remove what makes devices shared, unless a stored one is."""
    if any(device.get("allowMultipleAllocations") for device in old):
        return
    for device in new:
        device.pop("allowMultipleAllocations", None)
        for capacity in table(device.get("capacity")).values():
            table(capacity).pop("requestPolicy", None)


def drop_binding(new: list[Object], old: list[Object]) -> None:
    """Remove binding conditions of devices, or of allocated ones, unless some are stored."""
    if not any(each.get(field) for each in old for field in BINDING_FIELDS):
        for each in new:
            for field in BINDING_FIELDS:
                each.pop(field, None)


def slice_causes(spec: Object) -> list[Cause]:
    causes = driver_causes("spec.driver", spec.get("driver") or "") + _pool_causes(table(spec.get("pool")))
    causes += places_causes("spec", spec, PLACES, ONE_PLACE)
    causes += selector_causes("spec.nodeSelector", spec.get("nodeSelector"))
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices and counters:
        text = "only one of `sharedCounters` or `devices` is allowed"
        causes.append(invalid("spec", "{`sharedCounters`, `devices`}", text))
    return causes + _devices_causes(devices, spec) + counter_sets_causes("spec.sharedCounters", counters)


def _pool_causes(pool: Object) -> list[Cause]:
    causes = pool_causes("spec.pool.name", pool.get("name") or "")
    generation, count = pool.get("generation") or 0, pool.get("resourceSliceCount") or 0
    if generation < 0:
        causes.append(invalid("spec.pool.generation", generation, "must be greater than or equal to zero"))
    if count <= 0:
        causes.append(invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    return causes


def places_causes(path: str, holder: Object, names: tuple[str, ...], text: str) -> list[Cause]:
    """Require exactly one of the fields that select nodes."""
    causes, given = [], [name for name in names if holder.get(name) is not None]
    found = [name for name in given if holder[name] not in ("", False)]
    for name in given:
        if name == "nodeName":
            causes += _node_name_causes(f"{path}.{name}", holder[name])
        elif name not in found:
            causes.append(invalid(f"{path}.{name}", False, "must be either unset or set to true"))
    if not found:
        return [*causes, required(path, text)]
    if len(found) > 1:
        shown = ", ".join(f"`{name}`" for name in found)
        causes.append(invalid(path, f"{{{shown}}}", text + SEVERAL))
    return causes


def _node_name_causes(path: str, name: str) -> list[Cause]:
    if not name:
        return [invalid(path, "", "must be either unset or set to a non-empty string")]
    return [invalid(path, name, fault) for fault in subdomain_faults(name)]


def selector_causes(path: str, selector: Any) -> list[Cause]:
    if not isinstance(selector, dict):
        return []
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        return [invalid(f"{path}.nodeSelectorTerms", terms, "must have exactly one node selector term")]
    return []


def _devices_causes(devices: Any, spec: Object) -> list[Cause]:
    rich = any(device.get("taints") or device.get("consumesCounters") for device in rows(devices))
    limit = RICH_DEVICES if rich else DEVICES
    if len(rows(devices)) > limit:
        return [too_many("spec.devices", len(devices), limit)]
    causes = each("spec.devices", devices, limit, lambda path, device: _device_causes(path, table(device), spec))
    return causes + repeated_names("spec.devices", devices)


def _device_causes(path: str, device: Object, spec: Object) -> list[Cause]:
    attributes, capacity = table(device.get("attributes")), table(device.get("capacity"))
    causes = label_causes(f"{path}.name", device.get("name") or "")
    if (count := len(attributes) + len(capacity)) > ENTRIES:
        text = f"the total number of attributes and capacities must not exceed {ENTRIES}"
        return [*causes, invalid(path, count, text)]
    for name in sorted(attributes):
        causes += qualified_causes(f"{path}.attributes", name)
        causes += attribute_causes(keyed(f"{path}.attributes", name), attributes[name])
    for name in sorted(capacity):
        causes += qualified_causes(f"{path}.capacity", name)
        causes += capacity_causes(
            keyed(f"{path}.capacity", name), capacity[name], bool(device.get("allowMultipleAllocations"))
        )
    causes += taints_causes(f"{path}.taints", device.get("taints"))
    causes += consumption_causes(f"{path}.consumesCounters", device.get("consumesCounters"))
    return causes + _own_place(path, device, spec) + binding_causes(path, device)


def _own_place(path: str, device: Object, spec: Object) -> list[Cause]:
    if spec.get("perDeviceNodeSelection"):
        causes = places_causes(path, device, OWN_PLACES, ONE_OWN_PLACE)
        return causes + selector_causes(f"{path}.nodeSelector", device.get("nodeSelector"))
    given = any(device.get(name) is not None for name in OWN_PLACES)
    return [invalid(path, None, NO_OWN_PLACE)] if given else []


def binding_causes(path: str, device: Object) -> list[Cause]:
    wanted, failing = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    causes = []
    for name, found in (("bindingConditions", wanted), ("bindingFailureConditions", failing)):
        at = f"{path}.{name}"
        causes += each(at, found, CONDITIONS, lambda where, key: label_key_causes(where, str(key)), str)
    if bool(wanted) != bool(failing):
        missing, given = ("bindingFailureConditions", "bindingConditions")[:: 1 if wanted else -1]
        causes.append(invalid(f"{path}.{missing}", None, f"{missing} are required to use {given}"))
    both = [index for index, name in enumerate(failing) if name in wanted]
    text = "bindingFailureConditions must not overlap with bindingConditions"
    return causes + [invalid(f"{path}.bindingFailureConditions[{index}]", failing[index], text) for index in both]
