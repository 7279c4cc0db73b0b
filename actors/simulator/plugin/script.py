"""The script of `nodeplane plugin`, as types; docs/how-to/script-a-failing-plugin.md explains it."""

from typing import Literal

import msgspec

from protocols.process.scripts import CallFaults, ScriptStep, Seconds, StreamEnd

Method = Literal["GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation", "Allocate", "PreStartContainer"]
Strategy = Literal["first", "last", "packed", "spread", "few", "foreign"]
MOST_DEVICES = 100_000
MOST_STEPS = 10_000
MOST_CONTAINERS = 16


class DeviceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that a script lists."""

    id: str
    numa: int | tuple[int, ...] = ()
    health: str = "Healthy"

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.numa,) if isinstance(self.numa, int) else self.numa


class PluginMount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A mount in an answer to Allocate."""

    container_path: str
    host_path: str
    read_only: bool = False


class DeviceNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A device node in an answer to Allocate."""

    container_path: str
    host_path: str
    permissions: str = "rw"


class AllocateAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Response of Allocate. `$IDS` stands for the ids with commas; a text with `$ID` is repeated for each device."""

    envs: dict[str, str] | None = None
    """None: the default variable with all ids."""
    mounts: tuple[PluginMount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = {}
    cdi: tuple[str, ...] = ()
    containers: int | None = None
    """Number of containers answered, 0 to 16; None = as many as were asked for."""

    def __post_init__(self) -> None:
        if not 0 <= (self.containers or 0) <= MOST_CONTAINERS:
            raise ValueError(f"containers must be 0 to {MOST_CONTAINERS}")


class Register(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Overrides for the Register call; empty = the true value."""

    version: str = ""
    resource: str = ""
    endpoint: str = ""


class PluginStep(ScriptStep, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step. Its changes apply in the order of these fields and appear in one new list."""

    health: dict[str, str] = msgspec.field(default_factory=dict)
    """Health by device id; any word."""
    unhealthy: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    add: int | tuple[DeviceSpec, ...] = 0
    """A number adds that many devices with the next free numbers."""
    remove: int | tuple[str, ...] = 0
    """A number removes that many of the last devices."""
    calls: dict[Method, CallFaults] = msgspec.field(default_factory=dict)
    """Faults from now on; `Allocate: {}` ends the fault of Allocate."""
    flood: int = 0
    """Send the list this many times, as fast as the node reads it."""
    end: bool | StreamEnd = False
    """ListAndWatch ends, with status OK or an error; the socket stays."""
    stop: bool = False
    """The plugin shuts down and removes its socket."""
    crash: bool = False
    """All connections close and the socket file stays, as after kill -9."""
    register: bool | Register = False
    """Serve (again, after stop or crash) and register."""


class PluginScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A whole script of a plugin; ValueError names what is wrong."""

    resource: str = ""
    """DOMAIN/NAME; --resource overrides it."""
    devices: int | tuple[DeviceSpec, ...] = 1
    numa: int = 0
    """NUMA nodes to spread the devices over, if `devices` is a number."""
    pre_start: bool = False
    preferred: Strategy | None = None
    """Strategy of GetPreferredAllocation; None: the call is not offered."""
    answer: AllocateAnswer = AllocateAnswer()
    answers: dict[str, AllocateAnswer] = {}
    """Answers for these ids, joined by commas in the order of the request; others get `answer`."""
    calls: dict[Method, CallFaults] = {}
    steps: tuple[PluginStep, ...] = ()
    repeat: Seconds = Seconds(0)
    """Period in which the steps repeat; 0 = play them once."""

    def __post_init__(self) -> None:
        count = self.devices if isinstance(self.devices, int) else len(self.devices)
        if not 0 <= count <= MOST_DEVICES:
            raise ValueError(f"devices must be 0 to {MOST_DEVICES}")
        if len(self.steps) > MOST_STEPS:
            raise ValueError(f"{len(self.steps)} steps are too many; {MOST_STEPS} are the limit")
        latest = max((step.at for step in self.steps), default=Seconds(0))
        if self.repeat and self.repeat <= latest:
            raise ValueError(f"repeat must be later than the last step, at {latest:g}s")
