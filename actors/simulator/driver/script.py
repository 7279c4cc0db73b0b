"""The script of `nodeplane dra-driver`, as types; docs/how-to/write-a-dra-driver.md explains it."""

from typing import Literal

import msgspec

from actors.simulator.engine.scripts import CallFaults, Seconds, Step

Method = Literal[
    "GetInfo", "NotifyRegistrationStatus", "NodePrepareResources", "NodeUnprepareResources", "NodeWatchResources"
]
MOST_DEVICES, MOST_STEPS, MOST_PARTITIONS = 10_000, 10_000, 16


class DriverStep(Step, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    calls: dict[Method, CallFaults] = msgspec.field(default_factory=dict)
    """Faults from now on; `NodePrepareResources: {}` ends a fault."""
    end: bool = False
    """Health streams end with status OK; the sockets stay."""
    stop: bool = False
    """The driver shuts down and removes its sockets."""
    crash: bool = False
    """All connections close and the sockets stay, as after kill -9."""
    register: bool = False
    """Serve and register (again, after stop or crash)."""


class DriverScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    driver: str = ""
    """A DNS name; --driver overrides it."""
    devices: int = 1
    numa: int = 0
    partitions: int = 0
    shared: bool = False
    attach: int = 0
    """Seconds until allocated devices are attached; 0 = at once."""
    health_timeout: int = 30
    calls: dict[Method, CallFaults] = {}
    steps: tuple[DriverStep, ...] = ()
    repeat: Seconds = Seconds(0)
    """Period in which the steps repeat; 0 = play them once."""

    def __post_init__(self) -> None:
        if not (0 <= self.devices <= MOST_DEVICES and 0 <= self.partitions <= MOST_PARTITIONS):
            raise ValueError(f"devices must be 0 to {MOST_DEVICES}, partitions 0 to {MOST_PARTITIONS}")
        if not (1 <= self.health_timeout <= 86400 and 0 <= self.numa <= 64):
            raise ValueError("healthTimeout must be 1 to 86400 seconds, numa 0 to 64")
        if not 0 <= self.attach <= 86400:
            raise ValueError("attach must be 0 to 86400 seconds")
        if len(self.steps) > MOST_STEPS:
            raise ValueError(f"{len(self.steps)} steps are too many; {MOST_STEPS} are the limit")
        latest = max((step.at for step in self.steps), default=Seconds(0))
        if self.repeat and self.repeat <= latest:
            raise ValueError(f"repeat must be later than the last step, at {latest:g}s")
