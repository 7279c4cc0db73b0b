"""ResourceSlice: validation of published devices and shared counters."""

from collections.abc import Iterable

from protocols.dra.pools import COUNTER_SETS, DEVICES, RICH_DEVICES
from protocols.kinds.check.causes import Cause, invalid, required, too_many
from protocols.kinds.check.selectors import node_selector
from protocols.kinds.check.table import Causes, Check, Ordered, at_least, causes_of, each, needed
from protocols.kinds.check.values import driver_name, label_key, subdomain
from protocols.kinds.dra.names import keyed, label_name, pool_name, qualified_name
from protocols.kinds.dra.selectors import spec_of
from protocols.kinds.dra.values import attribute, capacity_causes, stamp, taints
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import mapping, rows

USES, COUNTERS = 2, 32


def _counters(path: str, counters: Object, causes: Causes) -> None:
    if len(counters) > COUNTERS:
        causes.append(too_many(path, len(counters), COUNTERS))
        return
    for name in sorted(counters):
        where = keyed(path, name)
        if name:
            label_name(where, name, causes)
        else:
            causes.append(invalid(where, name, "must not be empty"))
        if mapping(counters[name]).get("value") is None:
            causes.append(required(f"{where}.value"))


def _named(name: str, limit: int) -> Check:
    counted = Ordered(f"{name} counters", **{name: needed(label_name), "counters": needed(_counters)})
    return each(counted, limit=limit, key=lambda value: value.get(name), at=f".{name}")


counter_sets, consumption = _named("name", COUNTER_SETS), _named("counterSet", USES)


ENTRIES, CONDITIONS = 32, 4
OWN_PLACES = ("nodeName", "nodeSelector", "allNodes")
ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
ONE_OWN_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
NO_OWN_PLACE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
SEVERAL = f"{ONE_PLACE}, but multiple fields are set"
IMMUTABLE = "field is immutable"
TAINTS_GATE, BINDING_GATE, SHARES_GATE = "DRADeviceTaints", "DRADeviceBindingConditions", "DRAConsumableCapacity"
BINDING_FIELDS = ("bindsToNode", "bindingConditions", "bindingFailureConditions")


class SliceStrategy(Strategy):
    """ResourceSlices; fields of disabled gates are dropped unless the stored slice uses them."""

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
            ("spec.pool.name", mapping(spec.get("pool")).get("name"), mapping(before.get("pool")).get("name")),
            ("spec.nodeName", spec.get("nodeName"), before.get("nodeName")),
        ]
        return slice_causes(spec) + [invalid(path, mine, IMMUTABLE) for path, mine, was in fixed if mine != was]


ALPHA_ATTRIBUTES = ("ints", "bools", "strings", "versions")
"""Lists of values, which upstream drops while DRAListTypeAttributes is disabled; nothing here allocates by them."""


def _drop_alpha(obj: Object) -> None:
    for device in rows(spec_of(obj).get("devices")):
        device.pop("nodeAllocatableResourceMappings", None)
        for value in mapping(device.get("attributes")).values():
            for field in ALPHA_ATTRIBUTES:
                mapping(value).pop(field, None)


def _drop_sharing(new: list[Object], old: list[Object]) -> None:
    """Remove what makes devices shared, unless a stored one is."""
    if any(device.get("allowMultipleAllocations") for device in old):
        return
    for device in new:
        device.pop("allowMultipleAllocations", None)
        for capacity in mapping(device.get("capacity")).values():
            mapping(capacity).pop("requestPolicy", None)


def drop_binding(new: list[Object], old: list[Object]) -> None:
    """Remove binding conditions of devices, or of allocated ones, unless some are stored."""
    if not any(device.get(field) for device in old for field in BINDING_FIELDS):
        for device in new:
            for field in BINDING_FIELDS:
                device.pop(field, None)


def slice_causes(spec: Object) -> list[Cause]:
    """Check the spec of a slice: its devices or its shared counters."""
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    causes = causes_of(_SLICE, "spec", spec)
    _one_place("spec", spec, (ONE_PLACE, SEVERAL), causes)
    if devices and counters:
        text = "only one of `sharedCounters` or `devices` is allowed"
        causes.append(invalid("spec", "{`sharedCounters`, `devices`}", text))
    is_rich = any(device.get("taints") or device.get("consumesCounters") for device in rows(devices))
    own_places = bool(spec.get("perDeviceNodeSelection"))

    def device(path: str, value: Object, causes: Causes) -> None:
        _device(path, value, own_places, causes)

    limit = RICH_DEVICES if is_rich else DEVICES
    every = Ordered(devices=each(device, limit=limit, key=_name_of, at=".name"), sharedCounters=counter_sets)
    every("spec", spec, causes)
    return causes


def _name_of(device: Object) -> str | None:
    return device.get("name")


_POOL = Ordered(
    "name generation=0 resourceSliceCount=0",
    name=pool_name,
    generation=at_least(0, "must be greater than or equal to zero"),
    resourceSliceCount=at_least(1, "must be greater than zero"),
)
_SLICE = Ordered(
    "driver pool",
    driver=driver_name,
    pool=lambda path, pool, causes: _POOL(path, mapping(pool), causes),
)


def _true(path: str, value: bool, causes: Causes) -> None:
    if not value:
        causes.append(invalid(path, False, "must be either unset or set to true"))


def _one_term(path: str, selector: Object, causes: Causes) -> None:
    """Check a node selector of a slice or a device; the scheduler merges those of several, which have one term each."""
    node_selector(path, selector, causes)
    terms = selector.get("nodeSelectorTerms")
    if len(terms or ()) != 1:
        causes.append(invalid(f"{path}.nodeSelectorTerms", terms, "must have exactly one node selector term"))


def _node_name(path: str, name: str, causes: Causes) -> None:
    if name:
        subdomain(path, name, causes)
    else:
        causes.append(invalid(path, "", "must be either unset or set to a non-empty string"))


_PLACES: dict[str, Check] = {
    "nodeName": _node_name,
    "nodeSelector": _one_term,
    "allNodes": _true,
    "perDeviceNodeSelection": _true,
}
_CHECKED = Ordered(**_PLACES)


def _one_place(
    path: str, holder: Object, texts: tuple[str, str], causes: Causes, names: Iterable[str] = _PLACES
) -> None:
    """Require exactly one of the fields that select nodes; `texts` are for none of them and for several."""
    _CHECKED(path, holder, causes)
    given = [name for name in names if holder.get(name) not in (None, "", False)]
    if not given:
        causes.append(required(path, texts[0]))
    elif len(given) > 1:
        shown = ", ".join(f"`{name}`" for name in given)
        causes.append(invalid(path, f"{{{shown}}}", texts[1]))


def is_over(path: str, device: Object, causes: Causes) -> bool:
    """Report a device, or a patch of devices, with too many attributes and capacities."""
    count = len(device.get("attributes") or ()) + len(device.get("capacity") or ())
    if count > ENTRIES:
        text = f"the total number of attributes and capacities must not exceed {ENTRIES}"
        causes.append(invalid(path, count, text))
    return count > ENTRIES


_REST = Ordered(taints=taints, consumesCounters=consumption)


def _device(path: str, device: Object, own_places: bool, causes: Causes) -> None:
    label_name(f"{path}.name", device.get("name") or "", causes)
    if is_over(path, device, causes):
        return
    is_shared = bool(device.get("allowMultipleAllocations"))
    for name, value in sorted((device.get("attributes") or {}).items()):
        qualified_name(f"{path}.attributes", name, causes)
        attribute(keyed(f"{path}.attributes", name), value, causes)
    for name, value in sorted((device.get("capacity") or {}).items()):
        qualified_name(f"{path}.capacity", name, causes)
        causes += capacity_causes(keyed(f"{path}.capacity", name), value, is_shared)
    _REST(path, device, causes)
    if own_places:
        _one_place(path, device, (ONE_OWN_PLACE, ONE_OWN_PLACE), causes, OWN_PLACES)
    elif any(device.get(name) is not None for name in OWN_PLACES):
        causes.append(invalid(path, None, NO_OWN_PLACE))
    bindings(path, device, causes)


_conditions = each(label_key, limit=CONDITIONS, key=str)
_BINDINGS = Ordered(bindingConditions=_conditions, bindingFailureConditions=_conditions)


def bindings(path: str, device: Object, causes: Causes) -> None:
    """Check a device's binding conditions: both lists or none, without a common name."""
    _BINDINGS(path, device, causes)
    wanted, failing = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    if bool(wanted) != bool(failing):
        missing, given = ("bindingFailureConditions", "bindingConditions")[:: 1 if wanted else -1]
        causes.append(invalid(f"{path}.{missing}", None, f"{missing} are required to use {given}"))
    text, conditions = "bindingFailureConditions must not overlap with bindingConditions", set(wanted)
    for index, name in enumerate(failing):
        if name in conditions:
            causes.append(invalid(f"{path}.bindingFailureConditions[{index}]", name, text))
