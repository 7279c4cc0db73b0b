"""The script of `nodeplane dra-driver`, as types; docs/how-to/write-a-dra-driver.md explains it."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from protocols.process.scripts import CallFault, ScriptStep, Seconds, StreamEnd

Method = Literal[
    "GetInfo", "NotifyRegistrationStatus", "NodePrepareResources", "NodeUnprepareResources", "NodeWatchResources",
    "WatchDevicesStatus",
]  # fmt: skip
CLAIM_METHODS = ("NodePrepareResources", "NodeUnprepareResources")
INFO_METHOD = "GetInfo"
MOST_DEVICES, MOST_STEPS, MOST_PARTITIONS = 10_000, 10_000, 16
MOST_CLAIM_DEVICES = 32
"""Devices of one claim, as many as an allocation has."""


class DeviceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A device with the fields of a ResourceSlice, and its health at the start."""

    name: str
    health: str = "Healthy"
    message: str = ""
    away: bool = False
    """It is not offered until a step adds it."""
    attributes: dict[str, dict[str, Any]] = {}
    capacity: dict[str, dict[str, Any]] = {}
    consumes_counters: list[dict[str, Any]] = []
    taints: list[dict[str, Any]] = []
    allow_multiple_allocations: bool = False
    binds_to_node: bool = False
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []

    def __post_init__(self) -> None:
        if not all(taint.get("timeAdded") for taint in self.taints):
            raise ValueError(f"taints of {self.name} need timeAdded, as the API would add another one at each write")

    @property
    def published(self) -> dict[str, Any]:
        """The device of a ResourceSlice; defaults are absent."""
        names = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        fields = {shown: getattr(self, name) for name, shown in names if name not in ("health", "message", "away")}
        return {name: value for name, value in fields.items() if value}


class ClaimAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer for one claim, as far as it differs from a correct driver's."""

    error: str = ""
    skip: bool = False
    """The response has no entry for the claim."""
    devices: int | None = None
    """Number of devices answered; None = all of the allocation."""
    cdi: tuple[str, ...] | None = None
    """CDI names of each device; `$ID` stands for its name. None = that of the claim's CDI file."""

    def __post_init__(self) -> None:
        if not 0 <= (self.devices or 0) <= MOST_CLAIM_DEVICES:
            raise ValueError(f"devices must be 0 to {MOST_CLAIM_DEVICES}")


class ClaimFault(CallFault, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of a driver's call."""

    claims: dict[str, ClaimAnswer] = msgspec.field(default_factory=dict)
    """Answers by pattern of the claim's name, such as `gpu-*`: the first that matches."""
    info: dict[Literal["type", "name", "endpoint"], str] = msgspec.field(default_factory=dict)
    """Values of the answer to GetInfo instead of the right ones."""


ClaimFaults = ClaimFault | tuple[ClaimFault, ...]


def _check_claims(calls: Mapping[Method, ClaimFaults]) -> None:
    for method, entry in calls.items():
        faults = entry if isinstance(entry, tuple) else (entry,)
        if method not in CLAIM_METHODS and any(fault.claims for fault in faults):
            raise ValueError(f"claims goes with {' and '.join(CLAIM_METHODS)}, not with {method}")
        if method != INFO_METHOD and any(fault.info for fault in faults):
            raise ValueError(f"info goes with {INFO_METHOD}, not with {method}")


class DriverStep(ScriptStep, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step. Its changes apply in the order of these fields and appear in one health report."""

    unhealthy: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    health: dict[str, str] = msgspec.field(default_factory=dict)
    """Health by device; any word but Healthy and Unhealthy is reported as unknown."""
    message: str = ""
    """For the devices whose health this step changes."""
    remove: tuple[str, ...] = ()
    """Devices that are no longer offered, neither in slices nor in reports."""
    add: tuple[str, ...] = ()
    """Removed devices that are offered again."""
    silent: bool | None = None
    """True: health streams stay open without reports; False: they report again."""
    calls: dict[Method, ClaimFaults] = msgspec.field(default_factory=dict)
    """Faults from now on; `NodePrepareResources: {}` ends a fault."""
    end: bool | StreamEnd = False
    """Health streams end, with status OK or an error; the sockets stay."""
    stop: bool = False
    """The driver shuts down and removes its sockets."""
    crash: bool = False
    """All connections close and the sockets stay, as after kill -9."""
    register: bool = False
    """Serve and register (again, after stop or crash)."""

    def __post_init__(self) -> None:
        _check_claims(self.calls)


class DriverScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A whole script of a driver; ValueError names what is wrong."""

    driver: str = ""
    """A DNS name; --driver overrides it."""
    devices: int | tuple[DeviceSpec, ...] = 1
    shared_counters: list[dict[str, Any]] = []
    """Counter sets of the pool, which listed devices consume."""
    numa: int = 0
    """NUMA nodes to spread the devices over, in equal blocks; 0 = devices without."""
    partitions: int = 0
    """Number of partitions that each device can be allocated in, instead of as a whole."""
    shared: bool = False
    """Devices allow multiple allocations, each of a part of their memory."""
    attach: int = 0
    """Seconds from the allocation of a device until it is attached; 0 = devices without binding conditions."""
    health_timeout: int = 30
    """Seconds without a report after which the node considers the health of a device unknown."""
    versions: tuple[str, ...] = ()
    """Services that GetInfo names; empty = all but v1alpha1.NodeHealth."""
    node_health: bool = False
    """Serve v1alpha1.NodeHealth, also if `versions` does not name it."""
    calls: dict[Method, ClaimFaults] = {}
    steps: tuple[DriverStep, ...] = ()
    repeat: Seconds = Seconds(0)
    """Period in which the steps repeat; 0 = play them once."""

    def __post_init__(self) -> None:
        self._check_devices()
        _check_claims(self.calls)
        if not (1 <= self.health_timeout <= 86400 and 0 <= self.numa <= 64):
            raise ValueError("healthTimeout must be 1 to 86400 seconds, numa 0 to 64")
        if not 0 <= self.attach <= 86400:
            raise ValueError("attach must be 0 to 86400 seconds")
        if len(self.steps) > MOST_STEPS:
            raise ValueError(f"{len(self.steps)} steps are too many; {MOST_STEPS} are the limit")
        latest = max((step.at for step in self.steps), default=Seconds(0))
        if self.repeat and self.repeat <= latest:
            raise ValueError(f"repeat must be later than the last step, at {latest:g}s")

    def _check_devices(self) -> None:
        if not (0 <= self.count <= MOST_DEVICES and 0 <= self.partitions <= MOST_PARTITIONS):
            raise ValueError(f"devices must be 0 to {MOST_DEVICES}, partitions 0 to {MOST_PARTITIONS}")
        if self.listed and (self.numa or self.partitions or self.shared):
            raise ValueError("numa, partitions and shared go with a number of devices, not with a list")
        if len({device.name for device in self.listed}) < len(self.listed):
            raise ValueError("two devices have the same name")

    @property
    def listed(self) -> tuple[DeviceSpec, ...]:
        return () if isinstance(self.devices, int) else self.devices

    @property
    def count(self) -> int:
        return self.devices if isinstance(self.devices, int) else len(self.devices)
