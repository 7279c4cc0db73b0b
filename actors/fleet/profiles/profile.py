"""The profile of a fleet as types: groups of nodes with their devices, and pools of devices of several nodes.

docs/reference/fleet-profiles.md lists the fields. Devices have the fields of a ResourceSlice; texts may have formulas
(formula.py). What the API accepts is checked by check.py, after expansion.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from actors.fleet.profiles.formula import NODE, compiled, names_in
from protocols.kube.errors import QuantityInvalid
from protocols.kube.names import subdomain_faults
from protocols.kube.quantity import parse_quantity
from protocols.kube.resource_names import is_extended
from protocols.process.scripts import Seconds, read_script

MAX_NODES, MAX_POOLS = 20_000, 1_000
MAX_DEVICES, MAX_POOL_DEVICES = 4_096, 100_000
"""Devices of a driver or plugin on a node; devices of a pool."""
MAX_NUMA = 64
MAX_PREFIX = 57
"""Characters of a group's name: with its number, a node's name must be a label value of 63."""
MAX_PROFILE_BYTES = 16 << 20
MACHINE = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
PLACES = ("node_selector", "all_nodes", "per_device_node_selection")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    pass


def _check_names(value: Any, allowed: set[str], is_compiled: bool = False) -> None:
    if unknown := names_in(value if is_compiled else compiled(value)) - allowed:
        raise ValueError(f"a formula here has no {' or '.join(sorted(unknown))}")


def _check_once(what: str, names: Iterable[Any]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"the {what} {twice[0]!r:.64} is listed twice")


class DeviceSpec(_Part, frozen=True, kw_only=True):
    """A device with the fields of a ResourceSlice, or several that differ by their number."""

    name: str
    """Name of the device; of repeated ones it has `{i}`."""
    repeat: int = 1
    """Number of devices that this stands for; `{i}` counts them from 0."""
    attributes: dict[str, dict[str, Any]] = {}
    """Attributes by name: `{string: ...}`, `{int: ...}`, `{bool: ...}` or `{version: ...}`."""
    capacity: dict[str, dict[str, Any]] = {}
    """Capacities by name: `{value: 80Gi}`, with a `requestPolicy` where devices are shared."""
    consumes_counters: tuple[dict[str, Any], ...] = ()
    """Counters that the device takes from sets of the pool: `{counterSet: ..., counters: {NAME: {value: ...}}}`."""
    taints: tuple[dict[str, Any], ...] = ()
    """Taints; each needs a `timeAdded`, as the API would add another one at each write."""
    allow_multiple_allocations: bool | None = None
    """Several claims may share the device."""
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    """Conditions that a claim waits for after the allocation of the device."""
    binding_failure_conditions: tuple[str, ...] = ()
    """Conditions that make the allocation fail."""
    node_name: str | None = None
    """In pools with `perDeviceNodeSelection`: the node of the device."""
    node_selector: dict[str, Any] | None = None
    """In pools with `perDeviceNodeSelection`: the nodes of the device."""
    all_nodes: bool | None = None
    """In pools with `perDeviceNodeSelection`: every node has access to the device."""

    def __post_init__(self) -> None:
        if not all(taint.get("timeAdded") for taint in self.taints):
            raise ValueError(f"taints of {self.name} need timeAdded, as the API would add another one at each write")
        _check_repeat(self.name, self.repeat)
        names_in(self.compiled)  # or raises ValueError

    @property
    def compiled(self) -> dict[Any, Any]:
        """The device of a ResourceSlice, with patterns."""
        return _compiled(self)


class CounterSetSpec(_Part, frozen=True, kw_only=True):
    """Counters that devices of the pool share, or several sets that differ by their number."""

    name: str
    repeat: int = 1
    """Number of sets that this stands for; `{i}` counts them from 0."""
    counters: dict[str, dict[str, Any]]
    """Counters by name: `{value: 40Gi}`."""

    def __post_init__(self) -> None:
        _check_repeat(self.name, self.repeat)
        names_in(self.compiled)  # or raises ValueError

    @property
    def compiled(self) -> dict[Any, Any]:
        """The counter set of a ResourceSlice, with patterns."""
        return _compiled(self)


def _compiled(spec: DeviceSpec | CounterSetSpec) -> dict[Any, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(spec)
    fields.pop("repeat", None)
    patterns: dict[Any, Any] = compiled(fields)
    return patterns


def _check_repeat(name: str, repeat: int) -> None:
    if not 1 <= repeat <= MAX_POOL_DEVICES:
        raise ValueError(f"repeat must be 1 to {MAX_POOL_DEVICES}")
    if repeat > 1 and "i" not in names_in(compiled(name)):
        raise ValueError(f"the name {name!r:.64} of repeated ones needs a formula with i, such as {{i}}")


class SliceSpec(_Part, frozen=True, kw_only=True):
    """The contents of ResourceSlices. More devices or counter sets than the API allows in one become several."""

    devices: tuple[DeviceSpec, ...] = ()
    shared_counters: tuple[CounterSetSpec, ...] = ()
    """Counter sets of the pool; they get slices of their own."""
    node_selector: dict[str, Any] | None = None
    """In pools: a node selector with one term, for the nodes that have access to the devices."""
    all_nodes: bool | None = None
    """In pools: every node has access to the devices."""
    per_device_node_selection: bool | None = None
    """In pools: each device has its own `nodeName`, `nodeSelector` or `allNodes`."""

    def __post_init__(self) -> None:
        _check_names(self.node_selector, set())

    @property
    def device_count(self) -> int:
        return sum(device.repeat for device in self.devices)


class PluginSpec(_Part, frozen=True, kw_only=True):
    """A device plugin: an extended resource and its devices."""

    resource: str
    """Extended resource, such as `example.com/gpu`."""
    devices: int | tuple[str, ...]
    """Number of devices, which are called `gpu-0`, `gpu-1` ... after the resource, or their ids."""
    numa: int = 0
    """NUMA nodes over which the devices are spread in equal blocks; 0 = devices without topology."""

    def __post_init__(self) -> None:
        if not is_extended(self.resource):
            raise ValueError(f"{self.resource!r:.64} is no extended resource; write a name such as example.com/gpu")
        if not (0 <= self.count <= MAX_DEVICES and 0 <= self.numa <= MAX_NUMA):
            raise ValueError(f"devices must be 0 to {MAX_DEVICES}, numa 0 to {MAX_NUMA}")
        _check_once("device", self.devices if isinstance(self.devices, tuple) else ())

    @property
    def count(self) -> int:
        return self.devices if isinstance(self.devices, int) else len(self.devices)


class DriverSpec(_Part, frozen=True, kw_only=True):
    """A DRA driver on each node of a group, and the ResourceSlices that it publishes."""

    driver: str
    """Name of the driver, a DNS name such as `gpu.example.com`."""
    pool: str = "{node}"
    """Name of the pool; a driver with several pools on a node is listed once for each."""
    slices: tuple[SliceSpec, ...] = (SliceSpec(),)

    def __post_init__(self) -> None:
        if any(getattr(template, place) is not None for template in self.slices for place in PLACES):
            raise ValueError("nodeSelector, allNodes and perDeviceNodeSelection go with pools; slices here have a node")
        _check_names(self.pool, {"n", NODE})
        _check_slices(self.slices, MAX_DEVICES)


class PoolSpec(_Part, frozen=True, kw_only=True):
    """A pool of devices that belong to no single node."""

    name: str
    driver: str
    slices: tuple[SliceSpec, ...]

    def __post_init__(self) -> None:
        _check_slices(self.slices, MAX_POOL_DEVICES)
        for part in self.slices:
            for spec in [
                *(device.compiled for device in part.devices),
                *(counter.compiled for counter in part.shared_counters),
            ]:
                _check_names(spec, {"i"}, is_compiled=True)


def _check_slices(slices: Iterable[SliceSpec], most: int) -> None:
    parts = list(slices)
    counts = (sum(part.device_count for part in parts), sum(s.repeat for part in parts for s in part.shared_counters))
    if not parts:
        raise ValueError("slices must have an entry; one without devices is {}")
    if max(counts) > most:
        raise ValueError(f"{max(counts)} devices or counter sets are too many; {most} are the limit")


class TaintSpec(_Part, frozen=True, kw_only=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str
    """NoSchedule, PreferNoSchedule or NoExecute."""


class NodeGroup(_Part, frozen=True, kw_only=True):
    """Nodes that are alike."""

    name: str
    """Prefix of the nodes' names, which are `NAME-0`, `NAME-1` ..."""
    count: int = 1
    """Number of nodes. With `--nodes` it is the group's share of that number."""
    labels: dict[str, str] = {}
    """Labels beside those that every node has; with formulas of `n` and `node`, such as `rack-{n//16}`."""
    annotations: dict[str, str] = {}
    """Annotations, with formulas as well."""
    taints: tuple[TaintSpec, ...] = ()
    capacity: dict[str, str | int | float] = {}
    """Quantities instead of, or beside, 64 CPUs, 512Gi of memory, 1Ti of ephemeral storage and 110 pods."""
    allocatable: dict[str, str | int | float] = {}
    """Quantities that are less than the capacity."""
    plugins: tuple[PluginSpec, ...] = ()
    drivers: tuple[DriverSpec, ...] = ()

    def __post_init__(self) -> None:
        if faults := subdomain_faults(self.name):
            raise ValueError(f"{self.name!r:.64} is no prefix of node names: {faults[0]}")
        if len(self.name) > MAX_PREFIX:
            raise ValueError(f"{self.name!r:.64} is too long; a group's name has at most {MAX_PREFIX} characters")
        if not 0 <= self.count <= MAX_NODES:
            raise ValueError(f"count must be 0 to {MAX_NODES}")
        for texts in (self.labels, self.annotations):
            _check_names(texts, {"n", NODE})
        _check_quantities(self.capacity, {plugin.resource for plugin in self.plugins})
        _check_quantities(self.allocatable, {plugin.resource for plugin in self.plugins})
        _check_once("plugin", (plugin.resource for plugin in self.plugins))
        _check_once("driver and pool", (f"{driver.driver} {driver.pool}" for driver in self.drivers))


def _check_quantities(quantities: Mapping[str, str | int | float], plugins: set[str]) -> None:
    for name, value in quantities.items():
        try:
            parse_quantity(value)
        except QuantityInvalid as error:
            raise ValueError(f"{name}: {error}") from None
        if name in plugins:
            raise ValueError(f"{name} has a plugin, which says how many devices there are")


class Profile(_Part, frozen=True, kw_only=True):
    """Groups of nodes, and pools of several nodes, that make a fleet."""

    name: str
    """A word for this profile."""
    groups: tuple[NodeGroup, ...] = ()
    pools: tuple[PoolSpec, ...] = ()
    """Pools of devices that belong to no single node."""
    start: Seconds = Seconds(0)
    """Time from the admission of a pod until its containers run."""
    attach: Seconds = Seconds(0)
    """Time from the allocation of a device until its binding conditions are met."""

    def __post_init__(self) -> None:
        if self.node_count > MAX_NODES or len(self.groups) > MAX_NODES:
            raise ValueError(f"{self.node_count} nodes are too many; {MAX_NODES} are the limit")
        if len(self.pools) > MAX_POOLS:
            raise ValueError(f"{len(self.pools)} pools are too many; {MAX_POOLS} are the limit")
        _check_once("group", (group.name for group in self.groups))
        _check_once("driver and pool", (f"{pool.driver} {pool.name}" for pool in self.pools))

    @property
    def node_count(self) -> int:
        return sum(group.count for group in self.groups)


def read_profile(path: Path) -> Profile:
    """Read a profile. Raises ScriptInvalid, one line that names the place."""
    return read_script(path, Profile, MAX_PROFILE_BYTES)
