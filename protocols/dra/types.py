"""Types of devices, slices, classes, patches and rules, read once from their JSON (`decode`).

All values are frozen and shared: a device that nothing patches is the very object that its slice was read into, so
`is` shows whether something changed. Names of attributes and capacities are always qualified (`domain/id`): a bare name
in a slice belongs to the slice's driver.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from protocols.errors import NodeplaneError
from protocols.kube.quantity import Quantity
from protocols.kube.taints import Taint

INT, BOOL, STRING, VERSION = "int", "bool", "string", "version"
"""Kinds of attributes, by their names in JSON."""


class DeviceId(NamedTuple):
    """Names one device of the cluster. Pool names contain slashes: never split a text to get one."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class PoolId(NamedTuple):
    """A pool of one driver; two drivers may use one pool name."""

    driver: str
    pool: str


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """Equal only in kind and value: true is not 1, and the version 1.0.0 is not the string."""

    kind: str
    value: bool | int | str


class RequestPolicy(msgspec.Struct, frozen=True):
    """requestPolicy: which amounts of a capacity may be asked for."""

    default: Quantity | None = None
    values: tuple[Quantity, ...] = ()
    low: Quantity | None = None
    high: Quantity | None = None
    step: Quantity | None = None


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """A capacity of a device; without a policy, each share of it consumes all of it."""

    value: Quantity
    policy: RequestPolicy | None = None


class CounterUse(msgspec.Struct, frozen=True):
    """Counters that a device consumes of a counter set of its pool."""

    counter_set: str
    counters: Mapping[str, Quantity]


class CounterSet(msgspec.Struct, frozen=True):
    """Counters that the partitions of a device share (KEP-4815), by name."""

    name: str
    counters: Mapping[str, Quantity]


class Reach(msgspec.Struct, frozen=True):
    """Nodes that can use a slice's devices, or one device. If nothing is set, none can."""

    node: str = ""
    selector: Mapping[str, Any] | None = None
    """A core/v1 NodeSelector as JSON."""
    everywhere: bool = False
    per_device: bool = False
    """Slices only: each device has its own reach."""


class Extras(msgspec.Struct, frozen=True):
    """Properties that few devices have and no patch changes."""

    consumes: tuple[CounterUse, ...] = ()
    reach: Reach | None = None
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failures: tuple[str, ...] = ()
    shared: bool = False
    """allowMultipleAllocations."""
    bare: frozenset[str] = frozenset()
    """Capacities of a shared device that the driver published without a domain."""


PLAIN = Extras()
"""Shared by all devices without extras."""


class Device(msgspec.Struct, frozen=True, gc=False):
    """A device of a slice, with attributes and capacity by qualified name."""

    name: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Capacity]
    taints: tuple[Taint, ...] = ()
    extras: Extras = PLAIN


class Slice(msgspec.Struct, frozen=True, gc=False):
    """A ResourceSlice. A patched one differs in `devices` only."""

    name: str
    uid: str
    driver: str
    pool: str
    generation: int
    """Generation of the pool, not of the object."""
    count: int
    """resourceSliceCount: how many slices of this generation make the pool complete."""
    reach: Reach
    devices: tuple[Device, ...] = ()
    counters: tuple[CounterSet, ...] = ()

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)


class DeviceClass(msgspec.Struct, frozen=True):
    """A DeviceClass: selectors that all have to be true, and configuration that is copied into allocations."""

    name: str
    uid: str
    generation: int
    """Generation of the object; identifies its content together with the uid."""
    selectors: tuple[str, ...] = ()
    """CEL expressions; an empty one stands for a selector of an unknown type."""
    config: tuple[Mapping[str, Any], ...] = ()
    extended_resource: str = ""
    created: str = ""


class Filter(msgspec.Struct, frozen=True):
    """Selection of devices by a patch: all that is set must hold."""

    class_name: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    selectors: tuple[str, ...] = ()


EVERYTHING = Filter()


class Patch(msgspec.Struct, frozen=True):
    """A ResourceSlicePatch: changes of the attributes, capacity and taints of all devices that its filter matches."""

    name: str
    uid: str
    generation: int
    created: float
    """Seconds since the epoch, as the API has it."""
    filter: Filter = EVERYTHING
    priority: int = 0
    attributes: Mapping[str, Attribute | None] = {}
    """None = the attribute is removed."""
    capacity: Mapping[str, Quantity] = {}
    taints: tuple[Taint, ...] = ()

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sort key; the first wins: higher priority, then older, then smaller name."""
        return (-self.priority, self.created, self.name)


class TaintRule(msgspec.Struct, frozen=True):
    """A DeviceTaintRule."""

    name: str
    uid: str
    generation: int
    taint: Taint
    selector: Filter | None = None
    """None selects nothing; an empty one everything. Only driver, pool and device are ever set."""


class DraError(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Base class of this package."""


class ObjectUnreadable(DraError):
    """Raised when a stored slice, class, patch or rule has a field of the wrong shape.

    The API refuses such objects, so another server let it in, or it is older than the check. Whoever reads it leaves it
    alone.
    """
