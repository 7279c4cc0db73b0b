"""What a script for `nodeplane plugin` may say. Pure: types only; docs/how-to/script-a-failing-plugin.md explains."""

from typing import Literal

import msgspec

from supervisor.scripted.types import Fault, Seconds, Step

Method = Literal["GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation", "Allocate", "PreStartContainer"]
Strategy = Literal["first", "last", "packed", "spread", "few", "foreign"]
MOST_DEVICES = 100_000
MOST_STEPS = 10_000


class DeviceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    numa: int | tuple[int, ...] = ()
    health: str = "Healthy"

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.numa,) if isinstance(self.numa, int) else self.numa


class Mount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    container_path: str
    host_path: str
    read_only: bool = False


class DeviceNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    container_path: str
    host_path: str
    permissions: str = "rw"


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Allocate gives. `$IDS` stands for the ids with commas; a text with `$ID` is given once per device."""

    envs: dict[str, str] | None = None
    """None: the plugin's own variable."""
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = {}
    cdi: tuple[str, ...] = ()


class Register(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other words for the Register call than the true ones; empty = the true ones."""

    version: str = ""
    resource: str = ""
    endpoint: str = ""


class PluginStep(Step, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One moment. Several things of one step happen in the order of the fields here; one new list tells them all."""

    health: dict[str, str] = msgspec.field(default_factory=dict)
    """Any word by device id."""
    unhealthy: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    add: int | tuple[DeviceSpec, ...] = 0
    """A number: more of the kind that is there, numbered on."""
    remove: int | tuple[str, ...] = 0
    """A number: the last ones."""
    calls: dict[Method, Fault] = msgspec.field(default_factory=dict)
    """From now on; `Allocate: {}` makes Allocate well again."""
    flood: int = 0
    """Send the list that often, as fast as it is taken."""
    end: bool = False
    """ListAndWatch ends in good order; the socket goes on."""
    stop: bool = False
    """The plugin stops in good order: its socket is removed."""
    crash: bool = False
    """Every connection is cut and the socket file is left, as after kill -9."""
    register: bool | Register = False
    """Serve (again, after stop or crash) and register."""


class PluginScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    resource: str = ""
    """DOMAIN/NAME; may also be given as --resource."""
    devices: int | tuple[DeviceSpec, ...] = 1
    numa: int = 0
    """With a number of devices: NUMA nodes to spread them over."""
    pre_start: bool = False
    preferred: Strategy | None = None
    """How GetPreferredAllocation chooses; None: it is not offered."""
    answer: Answer = Answer()
    calls: dict[Method, Fault] = {}
    steps: tuple[PluginStep, ...] = ()
    repeat: Seconds = Seconds(0)
    """Play the steps anew that often; 0 = once."""

    def __post_init__(self) -> None:
        count = self.devices if isinstance(self.devices, int) else len(self.devices)
        if not 0 <= count <= MOST_DEVICES:
            raise ValueError(f"devices must be 0 to {MOST_DEVICES}")
        if len(self.steps) > MOST_STEPS:
            raise ValueError(f"{len(self.steps)} steps are too many; {MOST_STEPS} are the limit")
        latest = max((step.at for step in self.steps), default=Seconds(0))
        if self.repeat and self.repeat <= latest:
            raise ValueError(f"repeat must be later than the last step, at {latest:g}s")
