"""What a script for `nodeplane dra-driver` may say. Pure: types only; docs/how-to/write-a-dra-driver.md explains."""

from typing import Literal

import msgspec

from supervisor.scripted.types import Fault, Seconds, Step

Method = Literal[
    "GetInfo", "NotifyRegistrationStatus", "NodePrepareResources", "NodeUnprepareResources", "NodeWatchResources"
]
MOST_DEVICES, MOST_STEPS, MOST_PARTITIONS = 10_000, 10_000, 16


class DriverStep(Step, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One moment. Several things of one step happen in the order of the fields here; one new report tells them all."""

    unhealthy: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    health: dict[str, str] = msgspec.field(default_factory=dict)
    """Any word by device; what is neither Healthy nor Unhealthy is told as unknown."""
    message: str = ""
    """For the devices whose health this step changes."""
    remove: tuple[str, ...] = ()
    """Devices that are no longer offered: neither in slices nor in reports."""
    add: tuple[str, ...] = ()
    """Removed ones that are back."""
    silent: bool | None = None
    """True: health streams stay open and say nothing; False: they speak again."""
    calls: dict[Method, Fault] = msgspec.field(default_factory=dict)
    """From now on; `NodePrepareResources: {}` makes the call well again."""
    end: bool = False
    """Health streams end in good order; the sockets go on."""
    stop: bool = False
    """The driver stops in good order: its sockets are removed."""
    crash: bool = False
    """Every connection is cut and the sockets are left, as after kill -9."""
    register: bool = False
    """Serve and register (again, after stop or crash)."""


class DriverScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    driver: str = ""
    """A DNS name; may also be given as --driver."""
    devices: int = 1
    numa: int = 0
    partitions: int = 0
    health_timeout: int = 30
    calls: dict[Method, Fault] = {}
    steps: tuple[DriverStep, ...] = ()
    repeat: Seconds = Seconds(0)
    """Play the steps anew that often; 0 = once."""

    def __post_init__(self) -> None:
        if not (0 <= self.devices <= MOST_DEVICES and 0 <= self.partitions <= MOST_PARTITIONS):
            raise ValueError(f"devices must be 0 to {MOST_DEVICES}, partitions 0 to {MOST_PARTITIONS}")
        if not (1 <= self.health_timeout <= 86400 and 0 <= self.numa <= 64):
            raise ValueError("healthTimeout must be 1 to 86400 seconds, numa 0 to 64")
        if len(self.steps) > MOST_STEPS:
            raise ValueError(f"{len(self.steps)} steps are too many; {MOST_STEPS} are the limit")
        latest = max((step.at for step in self.steps), default=Seconds(0))
        if self.repeat and self.repeat <= latest:
            raise ValueError(f"repeat must be later than the last step, at {latest:g}s")
