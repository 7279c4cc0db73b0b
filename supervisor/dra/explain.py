"""Where each value of a patched device comes from, and why each patch applies to it or does not. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from protocols.dra.gates import Gates
from protocols.dra.patching.criteria import Faulty, has_matching_names, judge
from protocols.dra.patching.types import Known
from protocols.dra.tracker.tracker import Tracker
from protocols.dra.types import Attribute, Capacity, Device, DeviceId, Slice
from protocols.kube.taints import Taint

ATTRIBUTE, CAPACITY, TAINT = "attribute", "capacity", "taint"
EVERY, SELECTED = "*", "(selector)"
"""Stand for the node of a device of every node, or of those that a selector names."""
DRIVER = "driver"
Said = Attribute | Capacity | Taint | None


class ExplainedKey(msgspec.Struct, frozen=True):
    """One key of a device."""

    kind: str
    name: str
    value: str
    """As people write it; empty = there is none any more."""
    source: str
    """`driver`, `patch NAME` or `rule NAME`."""
    published: str = ""
    """Value that the driver publishes; empty = none."""
    overruled: tuple[str, ...] = ()
    """Other patches that apply and say something else, the next in line first."""


class PatchVerdict(msgspec.Struct, frozen=True):
    """A patch whose names match a device, and if its selectors do, too."""

    patch: str
    priority: int
    applies: bool
    why: str
    """Reason why it does not apply; empty if it does."""


class Explanation(msgspec.Struct, frozen=True):
    """A device with the source of each of its values."""

    device: str
    slice: str
    node: str
    entries: tuple[ExplainedKey, ...]
    patches: tuple[PatchVerdict, ...]
    """Patches whose names allow this device, the best first."""
    turned_off: tuple[str, ...] = ()
    """Feature gates that are off, with the parts of patches that have no effect for it."""


def explain(tracker: Tracker, each: Slice, device: Device) -> Explanation:
    """Explain a device; `each` and `device` are as published, the tracker holds them as patched."""
    ranked = sorted(tracker.inputs.patches.values(), key=lambda known: known.rank)
    known = [patch for patch in ranked if has_matching_names(patch.patch.filter, each.driver, each.pool, device.name)]
    verdicts = tuple([_verdict(tracker, patch, each, device) for patch in known])
    applied = [patch for patch, verdict in zip(known, verdicts, strict=True) if verdict.applies]
    return Explanation(
        str(DeviceId(each.driver, each.pool, device.name)),
        each.name,
        place(each, device),
        tuple(_entries(tracker, each, device, applied)),
        verdicts,
        tuple(_turned_off(tracker.inputs.gates)),
    )


def place(each: Slice, device: Device) -> str:
    """Return the node that can use a device, EVERY, or SELECTED."""
    reach = device.extras.reach or each.reach
    return reach.node or (EVERY if reach.everywhere else SELECTED)


def _turned_off(gates: Gates) -> Iterator[str]:
    if not gates.attributes:
        yield "feature gate DRAAdminControlledDeviceAttributes is off: patches change no attributes and no capacity"
    if not gates.taints:
        yield "feature gate DRADeviceTaints is off: patches and rules add no taints"


def published(each: Slice, device: Device) -> Iterator[ExplainedKey]:
    """Yield the values of a device as its driver publishes them."""
    for name, attribute in sorted(device.attributes.items()):
        yield ExplainedKey(ATTRIBUTE, name, shown(attribute), DRIVER, shown(attribute))
    for name, amount in sorted(device.capacity.items()):
        yield ExplainedKey(CAPACITY, name, shown(amount), DRIVER, shown(amount))
    for taint in device.taints:
        yield ExplainedKey(TAINT, _taint_name(taint), shown(taint), DRIVER, shown(taint))


def _verdict(tracker: Tracker, known: Known, each: Slice, device: Device) -> PatchVerdict:
    return PatchVerdict(
        known.patch.name, known.patch.priority, not (why := _why_not(tracker, known, each, device)), why
    )


def _why_not(tracker: Tracker, known: Known, each: Slice, device: Device) -> str:
    selectors = tracker.inputs.selectors(known)
    if selectors is None:
        return f"class {known.patch.filter.class_name} does not exist"
    for selector in selectors:
        verdict = judge(each.driver, selector.expression, device)
        if isinstance(verdict, Faulty):
            return f"{selector.place}: {verdict.text}"
        if not verdict:
            return f"{selector.place} is false"
    return ""


def _entries(tracker: Tracker, each: Slice, device: Device, applied: list[Known]) -> Iterator[ExplainedKey]:
    gates = tracker.inputs.gates
    values = applied if gates.attributes else []
    for name in sorted({*device.attributes, *(key for known in values for key in known.patch.attributes)}):
        says = {known.patch.name: known.patch.attributes[name] for known in values if name in known.patch.attributes}
        yield _entry(ATTRIBUTE, name, device.attributes.get(name), says)
    for name in sorted({*device.capacity, *(key for known in values for key in known.patch.capacity)}):
        amounts = {known.patch.name: known.patch.capacity[name] for known in values if name in known.patch.capacity}
        own = device.capacity.get(name)
        yield _entry(CAPACITY, name, own, {patch: Capacity(amount) for patch, amount in amounts.items()})
    yield from _taints(tracker, each, device, applied if gates.taints else [])


def _entry(
    kind: str,
    name: str,
    own: Attribute | Capacity | Taint | None,
    says: Mapping[str, Attribute | Capacity | Taint | None],
) -> ExplainedKey:
    """`says`: by patch, the best first."""
    was = shown(own)
    if not says:
        return ExplainedKey(kind, name, was, DRIVER, was)
    winner, *others = says
    return ExplainedKey(kind, name, shown(says[winner]), f"patch {winner}", was, tuple(others))


def _taints(tracker: Tracker, each: Slice, device: Device, applied: list[Known]) -> Iterator[ExplainedKey]:
    own = {(taint.key, taint.effect): taint for taint in device.taints}
    said: dict[tuple[str, str], dict[str, Said]] = {}
    for known in applied:
        for taint in known.patch.taints:
            said.setdefault((taint.key, taint.effect), {})[known.patch.name] = taint
    for identity in [*own, *(new for new in said if new not in own)]:
        yield _entry(TAINT, f"{identity[0]}:{identity[1]}", own.get(identity), said.get(identity, {}))
    for name, ruled in sorted(tracker.inputs.rules.items()):
        selector = ruled.rule.selector
        if selector is not None and has_matching_names(selector, each.driver, each.pool, device.name):
            yield ExplainedKey(TAINT, _taint_name(ruled.rule.taint), shown(ruled.rule.taint), f"rule {name}")


def _taint_name(taint: Taint) -> str:
    return f"{taint.key}:{taint.effect}"


def shown(value: Said) -> str:
    """Return a value as in a table: `"A"`, `7`, `true`, `v1.2.3`, `80Gi`; of a taint its value and time."""
    if value is None:
        return ""
    if isinstance(value, Capacity):
        return str(value.value)
    if isinstance(value, Taint):
        return " ".join(filter(None, (f'"{value.value}"' if value.value else "", value.added))) or "-"
    if value.kind == "bool":
        return str(value.value).lower()
    return {"string": f'"{value.value}"', "version": f"v{value.value}"}.get(value.kind, str(value.value))
