"""Make a profile of the nodes and ResourceSlices of a cluster. Pure.

Nodes that are alike become one group with a count: those with equal labels, taints, quantities and slices, where the
node's own name in a text counts as equal. A pool is recorded in its newest generation; it belongs to a node if all its
slices do. Left out are hostnames, taints that controllers set, annotations, and fields that this API does not have.
"""

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from actors.fleet.profiles.anonymize import anonymized
from actors.fleet.profiles.expand import clean_slice
from actors.fleet.profiles.formula import escape
from actors.fleet.profiles.profile import (
    MACHINE,
    MAX_DEVICES,
    MAX_PREFIX,
    MAX_PROFILE_BYTES,
    CounterSetSpec,
    DeviceSpec,
    DriverSpec,
    NodeGroup,
    PluginSpec,
    PoolSpec,
    Profile,
    SliceSpec,
    TaintSpec,
)
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kube.errors import SHAPE_ERRORS
from protocols.kube.meta import Object, labels_of, name_of
from protocols.kube.names import SUBDOMAIN
from protocols.kube.quantity import parse_quantity
from protocols.kube.resource_names import is_extended
from protocols.kube.taints import node_taints

OWN_LABELS = ("kubernetes.io/hostname", "nodeplane.dev/fleet")
"""Labels that every node, and every fleet, sets anew."""
SET_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of the keys of taints that controllers set."""
ATTRIBUTE_KINDS = ("int", "bool", "string", "version")
UNKNOWN_TIME = "1970-01-01T00:00:00Z"
_WORD = "[A-Za-z0-9]"


class NotRecorded(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when nodes and slices cannot become a profile; the text says why."""


class PoolKey(NamedTuple):
    """A pool of ResourceSlices."""

    driver: str
    name: str


class Pool(NamedTuple):
    """The specs of a pool's slices."""

    key: PoolKey
    specs: Sequence[views.ResourceSliceSpec]


def record(nodes: Sequence[views.Node], slices: Iterable[views.ResourceSlice], anonymous: bool = False) -> Profile:
    """Return a profile that expands to the same nodes under other names, and the same slices.

    With `anonymous`, names and ids that identify the owner are replaced (anonymize.py). Raises NotRecorded.
    """
    if not nodes:
        raise NotRecorded("there are no nodes to record; check --selector and --kubeconfig")
    try:
        return _Recording(*(anonymized(nodes, slices) if anonymous else (nodes, slices))).profile()
    except (NodeplaneError, *SHAPE_ERRORS) as error:
        raise NotRecorded(f"these nodes cannot become a profile: {error!s:.200}") from None


def profile_text(profile: Profile) -> str:
    """Return the profile as YAML. Raises NotRecorded if it is too large to be read again."""
    import yaml  # slow to load, and few commands write it

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # C if built in
        def ignore_aliases(self, data: object) -> bool:
            return True

    fields = msgspec.to_builtins(profile, enc_hook=float)
    text: str = yaml.dump(fields, Dumper=Dumper, sort_keys=False, width=120, default_flow_style=None)
    if len(text) > MAX_PROFILE_BYTES:
        raise NotRecorded(
            f"the profile has {len(text)} bytes, {MAX_PROFILE_BYTES} are the limit; an anonymous one is shorter, as "
            "nodes with devices that differ in ids alone become one group"
        )
    return text


class _Recording:
    def __init__(self, nodes: Sequence[views.Node], slices: Iterable[views.ResourceSlice]) -> None:
        self._nodes = nodes
        names = {name_of(node) for node in nodes}
        self._own: dict[str, list[Pool]] = {name: [] for name in names}
        self._shared: list[Pool] = []
        for pool in _pools(slices):
            places = {spec.get("nodeName") or "" for spec in pool.specs}
            if len(places) > 1 or "" in places:
                self._shared.append(pool)
            elif (pools := self._own.get(places.pop())) is not None:
                pools.append(pool)
            # a pool of a node that is not recorded is left out

    def profile(self) -> Profile:
        by_group: dict[bytes, tuple[NodeGroup, list[str]]] = {}
        for node in self._nodes:
            group = _group(node, self._own[name_of(node)])
            by_group.setdefault(msgspec.json.encode(group, order="deterministic"), (group, []))[1].append(name_of(node))
        names, groups, renamed = set[str](), list[NodeGroup](), dict[str, str]()
        for group, members in by_group.values():
            name = _free_name(_common_name(members), names)
            groups.append(msgspec.structs.replace(group, name=name, count=len(members)))
            renamed.update((old, f"{name}-{index}") for index, old in enumerate(members))
        pools = tuple(_shared_pool(pool, renamed) for pool in self._shared)
        return Profile(name="recorded", groups=tuple(groups), pools=pools)


def _pools(slices: Iterable[views.ResourceSlice]) -> list[Pool]:
    """Return all pools with the slices of their newest generation."""
    by_pool: dict[PoolKey, list[views.ResourceSliceSpec]] = {}
    for obj in slices:
        spec = _cleaned(obj["spec"])
        by_pool.setdefault(PoolKey(spec["driver"], spec["pool"]["name"]), []).append(spec)
    return [Pool(key, _newest(specs)) for key, specs in by_pool.items()]


def _cleaned(spec: views.ResourceSliceSpec) -> views.ResourceSliceSpec:
    """Return a copy of the spec with the fields of this API alone. Raises WrongType."""
    copied = copy.deepcopy(spec)
    clean_slice(cast("Object", copied))
    return copied


def _newest(specs: list[views.ResourceSliceSpec]) -> list[views.ResourceSliceSpec]:
    newest = max(spec["pool"].get("generation") or 0 for spec in specs)
    return [spec for spec in specs if (spec["pool"].get("generation") or 0) == newest]


def _common_name(members: list[str]) -> str:
    """Return what the names of nodes begin with, without numbers at the end."""
    first, last = min(members), max(members)
    same = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    stem = first[:same] if len(members) > 1 else first
    return stem[:MAX_PREFIX].rstrip("0123456789-.") or "node"


def _free_name(stem: str, taken: set[str]) -> str:
    """Return a name for a group, and take it."""
    stem = stem if SUBDOMAIN.fullmatch(stem) else "node"
    number = 2
    name = stem
    while name in taken:
        end = f"-{number}"
        name, number = stem[: MAX_PREFIX - len(end)].rstrip("-.") + end, number + 1
    taken.add(name)
    return name


class _Texts:
    """Write the texts of a node for a profile: braces are escaped, and in attributes its name becomes `{node}`."""

    def __init__(self, node: str = "") -> None:
        self._name = re.compile(f"(?<!{_WORD}){re.escape(node)}(?!{_WORD})") if node else None

    def text(self, text: str) -> str:
        escaped = escape(text)
        return self._name.sub("{node}", escaped) if self._name else escaped

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return self.text(value) if key == "string" else escape(value)
        if isinstance(value, dict):
            return {escape(name): self.value(part, name) for name, part in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value


def _group(node: views.Node, pools: Iterable[Pool]) -> NodeGroup:
    texts, status = _Texts(name_of(node)), node.get("status") or {}
    capacity: Mapping[str, str] = status.get("capacity") or {}
    allocatable: Mapping[str, str] = status.get("allocatable") or capacity
    counts = {name: count for name, value in capacity.items() if (count := _count(name, value)) is not None}
    plain = {**dict.fromkeys(MACHINE, "0"), **{name: value for name, value in capacity.items() if name not in counts}}
    labels = {key: texts.text(value) for key, value in labels_of(node).items() if key not in OWN_LABELS}
    taints = [taint for taint in node_taints(node) if not taint.key.startswith(SET_TAINTS)]
    return NodeGroup(
        name="node",
        labels=labels,
        taints=tuple(TaintSpec(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints),
        capacity=dict(plain),
        allocatable={name: left for name, value in plain.items() if (left := allocatable.get(name, "0")) != value},
        plugins=tuple(PluginSpec(resource=name, devices=count) for name, count in counts.items()),
        drivers=tuple(_driver(pool, texts) for pool in sorted(pools, key=lambda pool: pool.key)),
    )


def _count(name: str, value: str) -> int | None:
    """Return the number of devices, if the resource may be one of a device plugin."""
    amount = parse_quantity(value)
    return amount.value() if is_extended(name) and amount.is_integer and 0 <= amount.value() <= MAX_DEVICES else None


def _driver(pool: Pool, texts: _Texts) -> DriverSpec:
    slices = [_slice(spec, texts) for spec in pool.specs]
    return DriverSpec(driver=pool.key.driver, pool=texts.text(pool.key.name), slices=_sorted(slices))


def _shared_pool(pool: Pool, renamed: Mapping[str, str]) -> PoolSpec:
    texts = _Texts()
    slices = [_slice(_placed(spec, renamed), texts) for spec in pool.specs]
    return PoolSpec(name=pool.key.name, driver=pool.key.driver, slices=_sorted(slices))


def _placed(spec: views.ResourceSliceSpec, renamed: Mapping[str, str]) -> Object:
    """Return the spec with the new names of nodes; a slice of one node selects it by its name."""
    devices = [_renamed(device, renamed) for device in spec.get("devices") or ()]
    new_spec = {**_renamed(spec, renamed), "devices": devices}
    if node := new_spec.pop("nodeName", None):
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        new_spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return new_spec


def _renamed(holder: Mapping[str, Any], renamed: Mapping[str, str]) -> Object:
    """Return a slice or device with the new names of nodes."""
    places = {name: _renamed_in(holder[name], renamed) for name in ("nodeName", "nodeSelector") if name in holder}
    return {**holder, **places}


def _renamed_in(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return renamed.get(value, value)
    if isinstance(value, dict):
        return {name: _renamed_in(part, renamed) for name, part in value.items()}
    return [_renamed_in(item, renamed) for item in value] if isinstance(value, list) else value


def _sorted(slices: Iterable[SliceSpec]) -> tuple[SliceSpec, ...]:
    """Order slices by their content, as the API's order depends on random names."""

    def key(found: SliceSpec) -> tuple[bool, str, bytes]:
        first = found.devices[0].name if found.devices else ""
        return not found.devices, first, msgspec.json.encode(found, order="deterministic")

    return tuple(sorted(slices, key=key))


def _slice(spec: Mapping[str, Any], texts: _Texts) -> SliceSpec:
    devices = [_device(_known(device, DeviceSpec)) for device in spec.get("devices") or ()]
    sets = [_known(counters, CounterSetSpec) for counters in spec.get("sharedCounters") or ()]
    fields = {**_known(spec, SliceSpec), "devices": devices, "sharedCounters": sets}
    return msgspec.convert(texts.value(fields), SliceSpec)


def _known(value: Mapping[str, Any], kind: type[msgspec.Struct]) -> Object:
    """Return the fields that a profile has as well."""
    names = kind.__struct_encode_fields__
    return {name: value[name] for name in names if name != "repeat" and value.get(name) is not None}


def _device(device: Object) -> Object:
    attributes = device.get("attributes") or {}
    known = {name: value for name, value in attributes.items() if value.keys() <= set(ATTRIBUTE_KINDS)}
    taints = [{"timeAdded": UNKNOWN_TIME, **taint} for taint in device.get("taints") or ()]
    return {**device, "attributes": known, "taints": taints}
