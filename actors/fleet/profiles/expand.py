"""Make the nodes of a profile. Pure, lazy and deterministic.

What nodes of a group have in common is one object in all their templates: nobody may change a template in place.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from actors.fleet.profiles.formula import Values, bound, compiled, names_in
from actors.fleet.profiles.profile import (
    MACHINE,
    MAX_NODES,
    CounterSetSpec,
    DeviceSpec,
    DriverSpec,
    NodeGroup,
    PluginSpec,
    PoolSpec,
    Profile,
    SliceSpec,
)
from protocols.dra.pools import slice_contents
from protocols.kinds import views
from protocols.kinds.shapes.clean import WrongType, canonical_quantity, clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.table import RESOURCESLICES
from protocols.kube.meta import Object
from protocols.lifecycle.devices.types import PluginDevice
from protocols.process.scripts import ScriptInvalid


class PluginTemplate(msgspec.Struct, frozen=True):
    """The devices that a device plugin lists on a node."""

    resource: str
    devices: tuple[PluginDevice, ...]


class DriverTemplate(msgspec.Struct, frozen=True):
    """The slices that a DRA driver publishes on a node."""

    driver: str
    slices: tuple[Object, ...]
    """Specs of ResourceSlices in generation 1, as the API stores them."""


class NodeTemplate(msgspec.Struct, frozen=True):
    """A node to simulate."""

    name: str
    group: str
    index: int
    """Number of the node in its group."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[views.Taint, ...]
    capacity: Mapping[str, str]
    """Quantities without those of plugins."""
    allocatable: Mapping[str, str]
    plugins: tuple[PluginTemplate, ...]
    drivers: tuple[DriverTemplate, ...]


def expand(profile: Profile, nodes: int | None = None) -> Iterator[NodeTemplate]:
    """Yield the nodes, group by group. With `nodes`, the groups' counts are scaled so that they sum to it.

    Raises ScriptInvalid.
    """
    for group, count in zip(profile.groups, node_counts(profile, nodes), strict=True):
        if count:
            group_nodes = GroupNodes(group)
            yield from (group_nodes.node(index) for index in range(count))


def node_counts(profile: Profile, nodes: int | None) -> list[int]:
    """Return the number of nodes of each group: scaled counts are rounded by the largest remainders.

    Raises ScriptInvalid.
    """
    counts, total = [group.count for group in profile.groups], profile.node_count
    if nodes is None:
        return counts
    if not 1 <= nodes <= MAX_NODES or not total:
        raise ScriptInvalid(f"{profile.name} cannot have {nodes} nodes; give 1 to {MAX_NODES}, and a group with nodes")
    floors = [count * nodes // total for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda at: (-(counts[at] * nodes % total), at))
    for at in by_remainder[: nodes - sum(floors)]:
        floors[at] += 1
    return floors


def pool_slices(profile: Profile) -> list[Object]:
    """Return the specs of the ResourceSlices of pools that belong to no single node. Raises ScriptInvalid."""
    return [spec for pool in profile.pools for spec in _pool_specs(pool)]


def _pool_specs(pool: PoolSpec) -> Iterator[Object]:
    contents = [part for spec in pool.slices for part in _contents(spec)]
    head = {"name": pool.name, "generation": 1, "resourceSliceCount": len(contents)}
    for content in contents:
        yield {"driver": pool.driver, "pool": head, **_stored(content, pool.driver)}


def _contents(spec: SliceSpec) -> list[Object]:
    """Return what each slice holds, with patterns where it depends on the node."""
    fields = msgspec.to_builtins(spec)
    places = {key: compiled(value) for key, value in fields.items() if key not in ("devices", "sharedCounters")}
    devices = [numbered for device in spec.devices for numbered in _numbered(device)]
    sets = [numbered for counters in spec.shared_counters for numbered in _numbered(counters)]
    parts = slice_contents(devices, sets)
    return [{**places, **part} for part in (parts[1:] if sets and not devices else parts)]


def _numbered(spec: DeviceSpec | CounterSetSpec) -> Iterator[Object]:
    patterns = spec.compiled
    for number in range(spec.repeat):
        yield bound(patterns, {"i": number})


def _stored(content: Object, driver: str) -> Object:
    """Return the content of a slice as the API stores it: canonical quantities, no zeros. Raises ScriptInvalid."""
    spec = {"driver": driver, "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}, **content}
    try:
        unknown = clean_slice(spec)
    except WrongType as error:
        raise ScriptInvalid(f"driver {driver}: {error}") from None
    if unknown:
        raise ScriptInvalid(f"driver {driver}: unknown key {unknown[0]}")
    return {key: value for key, value in spec.items() if key not in ("driver", "pool")}


def clean_slice(spec: Object) -> list[str]:
    """Make the spec of a slice what the API stores of it; return the unknown keys. Raises WrongType."""
    shape = kind_shape(RESOURCESLICES.group, RESOURCESLICES.version, RESOURCESLICES.kind)
    assert shape is not None
    return clean({"metadata": {}, "spec": spec}, shape)


class _Driver:
    """The slices of a driver in one pool, shared between nodes as far as they do not depend on the node."""

    def __init__(self, spec: DriverSpec) -> None:
        self.name = spec.driver
        self._pool = compiled(spec.pool)
        contents = [part for template in spec.slices for part in _contents(template)]
        self._contents = [content if names_in(content) else _stored(content, spec.driver) for content in contents]
        self._varies = [bool(names_in(content)) for content in contents]

    def slices(self, node: str, values: Values) -> Iterator[Object]:
        pool = {"name": bound(self._pool, values), "generation": 1, "resourceSliceCount": len(self._contents)}
        for content, varies in zip(self._contents, self._varies, strict=True):
            fields = _stored(bound(content, values), self.name) if varies else content
            yield {"driver": self.name, "nodeName": node, "pool": pool, **fields}


class GroupNodes:
    """The nodes of a group, whose common parts are made once."""

    def __init__(self, group: NodeGroup) -> None:
        self._group = group
        self._labels: Any = compiled(group.labels)
        self._annotations: Any = compiled(group.annotations)
        self._taints = tuple(
            views.Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in group.taints
        )
        self._capacity = _quantities({**MACHINE, **group.capacity})
        self._allocatable = (
            {**self._capacity, **_quantities(group.allocatable)} if group.allocatable else self._capacity
        )
        self._plugins = tuple(PluginTemplate(plugin.resource, tuple(_devices(plugin))) for plugin in group.plugins)
        self._drivers: dict[str, list[_Driver]] = {}
        for spec in group.drivers:
            self._drivers.setdefault(spec.driver, []).append(_Driver(spec))

    def node(self, index: int) -> NodeTemplate:
        name = f"{self._group.name}-{index}"
        values: Values = {"n": index, "node": name}
        return NodeTemplate(
            name=name,
            group=self._group.name,
            index=index,
            labels=bound(self._labels, values),
            annotations=bound(self._annotations, values),
            taints=self._taints,
            capacity=self._capacity,
            allocatable=self._allocatable,
            plugins=self._plugins,
            drivers=tuple(self._driver(driver, values) for driver in self._drivers),
        )

    def _driver(self, driver: str, values: Values) -> DriverTemplate:
        pools = self._drivers[driver]
        return DriverTemplate(
            driver, tuple(spec for pool in pools for spec in pool.slices(str(values["node"]), values))
        )


def _quantities(found: Mapping[str, str | int | float]) -> dict[str, str]:
    return {name: canonical_quantity(value) for name, value in found.items()}


def _devices(plugin: PluginSpec) -> Iterator[PluginDevice]:
    stem, count = plugin.resource.rpartition("/")[2], plugin.count
    ids = plugin.devices if isinstance(plugin.devices, tuple) else (f"{stem}-{at}" for at in range(count))
    for at, device in enumerate(ids):
        yield PluginDevice(device, True, (at * plugin.numa // count,) if plugin.numa else ())
