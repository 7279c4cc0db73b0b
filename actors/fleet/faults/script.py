"""Scripts of bad days as types: which nodes a fault hits, what happens to them, and when. Pure.

docs/reference/fleet-faults.md lists the fields; `nodeplane fleet fault` has a flag for each field of a fault.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from protocols.kube.errors import SelectorInvalid
from protocols.kube.selectors import parse_label_selector
from protocols.messages.devices import HEALTHY
from protocols.process.scripts import Seconds, read_script

MAX_STEPS = 1_000
SHORTEST_S = 0.1
"""Shortest period of a step or a script."""
MAX_TEXT = 1_024
GONE, BACK, SILENT, REPUBLISH = "gone", "back", "silent", "republish"
ACTIONS = ("health", "state", "node", "crash", "slices")
ONLY_WITH = {
    "devices": ("health",),
    "message": ("health",),
    "exit_code": ("crash",),
    "without": ("slices",),
    "plugin": ("health", "state"),
    "driver": ("health", "state", "slices"),
    "lasts": ("health", "state", "node"),
}
"""Fields that need one of these actions."""
MENDS = {"health": HEALTHY, "state": BACK, "node": BACK}
"""The end of each action that can last."""


def _about(text: str, metavar: str = "") -> msgspec.Meta:
    return msgspec.Meta(description=text, extra={"metavar": metavar})


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """One fault of any number of nodes. It has one of `health`, `state`, `node`, `crash` and `slices`."""

    nodes: Annotated[str, _about("nodes that it may hit, by a pattern of their names (*)", "PATTERN")] = "*"
    group: Annotated[str, _about("nodes that it may hit, by their group in the profile (all)", "NAME")] = ""
    selector: Annotated[
        str, _about("nodes that it may hit, by their labels, such as example.com/rack=rack-3 (all)", "LABELS")
    ] = ""
    share: Annotated[str, _about("share of these nodes that it hits, such as 10% (all)", "PERCENT")] = ""
    count: Annotated[int, _about("number of these nodes that it hits, instead of a share", "N")] = 0
    plugin: Annotated[str, _about("a plugin, by its resource", "RESOURCE")] = ""
    driver: Annotated[str, _about("a DRA driver, by its name", "NAME")] = ""
    health: Annotated[
        Literal["Healthy", "Unhealthy", "Unknown"] | None, _about("what the plugin or driver reports of devices")
    ] = None
    devices: Annotated[
        int | str,
        _about("devices that it hits: number on each node, share such as 10%, or pattern of ids (all)", "WHICH"),
    ] = ""
    message: Annotated[str, _about("text of the report about the devices", "TEXT")] = ""
    state: Annotated[Literal["gone", "back"] | None, _about("the plugin or driver ends, or comes back")] = None
    node: Annotated[Literal["silent", "back"] | None, _about("the nodes fall silent, or come back")] = None
    crash: Annotated[str, _about("share of the nodes' running pods whose containers end", "PERCENT")] = ""
    exit_code: Annotated[int, _about("exit code of the containers that crash (137)", "N")] = 137
    slices: Annotated[Literal["republish"] | None, _about("drivers publish a new generation of their slices")] = None
    without: Annotated[str, _about("share of the devices that the new generation lacks (none)", "PERCENT")] = ""
    lasts: Annotated[Seconds, _about("time after which it is mended (never)", "TIME")] = Seconds(0)
    seed: Annotated[int | None, _about("number that decides what is drawn", "N")] = None

    def __post_init__(self) -> None:
        given = [name for name in ACTIONS if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"a fault has one of {', '.join(ACTIONS)}; this one has {' and '.join(given) or 'none'}")
        self._check_fields(given[0])
        self._check_texts()
        if self.share and self.count:
            raise ValueError("a fault has a share or a count of nodes, not both")
        if self.count < 0 or (isinstance(self.devices, int) and self.devices < 1):
            raise ValueError("count and devices must be 1 or more")
        if not 0 <= self.exit_code <= 255:
            raise ValueError("exitCode must be 0 to 255")

    def _check_texts(self) -> None:
        if any(len(text) > MAX_TEXT for text in self._texts()):
            raise ValueError(f"texts have at most {MAX_TEXT} characters")
        for text in (self.share, self.crash, self.without):
            fraction(text)
        device_share(self)
        try:
            parse_label_selector(self.selector)
        except SelectorInvalid as error:
            raise ValueError(f"{self.selector!r:.64} selects no labels: {error}") from None

    def _texts(self) -> tuple[str, ...]:
        return (self.nodes, self.selector, self.message, str(self.devices), self.share, self.crash, self.without)

    def _check_fields(self, action: str) -> None:
        defaults = {field.name: field.default for field in msgspec.structs.fields(self)}
        for name, actions in ONLY_WITH.items():
            if getattr(self, name) != defaults[name] and action not in actions:
                raise ValueError(f"{name} goes with {' or '.join(actions)}, not with {action}")
        if action in ("health", "state") and bool(self.plugin) == bool(self.driver):
            raise ValueError(f"{action} needs a plugin or a driver, and not both")
        if self.plugin and self.health == "Unknown":
            raise ValueError("plugins report Healthy or Unhealthy; devices of one that is gone are Unknown")
        if self.lasts and getattr(self, action) == MENDS[action]:
            raise ValueError(f"{action}: {MENDS[action]} cannot be mended; leave lasts out")

    @property
    def action(self) -> str:
        return next(name for name in ACTIONS if getattr(self, name))

    @property
    def words(self) -> dict[str, Any]:
        """Its fields that are set, as a script has them."""
        names = {field.name: field.encode_name for field in msgspec.structs.fields(Fault)}
        defaults = {field.name: field.default for field in msgspec.structs.fields(Fault)}
        fields = {names[name]: getattr(self, name) for name in names if getattr(self, name) != defaults[name]}
        return {name: float(value) if isinstance(value, Seconds) else value for name, value in fields.items()}

    @property
    def end(self) -> "Fault":
        """The fault that mends this one."""
        fields: dict[str, Any] = {self.action: MENDS[self.action]}
        return Fault(plugin=self.plugin, driver=self.driver, **fields)


def device_share(fault: Fault) -> float | None:
    """Return the share of the devices that the fault hits; None if it names them otherwise. Raises ValueError."""
    devices = fault.devices
    return fraction(devices) if isinstance(devices, str) and devices.endswith("%") else None


def fraction(text: str) -> float | None:
    """Read a share such as `10%`; None for an empty one. Raises ValueError."""
    if not text:
        return None
    number = text.removesuffix("%")
    if number == text or not number.replace(".", "", 1).isdecimal() or not 0 < float(number) <= 100:
        raise ValueError(f"{text!r:.64} is no share; write a part of 100%, such as 10% or 0.5%")
    return float(number) / 100


class Step(Fault, frozen=True, kw_only=True):
    """A fault at a time of the script."""

    at: Seconds
    """Time since all nodes are registered."""
    every: Seconds = Seconds(0)
    """It comes again after this time, with other draws."""
    until: Seconds = Seconds(0)
    """Time of the script after which it comes no more; without it, it goes on until the script starts again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every and self.every < SHORTEST_S:
            raise ValueError(f"every must be {SHORTEST_S:g} s or more")
        if self.until and (not self.every or self.until < self.at):
            raise ValueError("until goes with every, and is no earlier than at")


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bad day."""

    seed: int = 0
    """Number that decides what is drawn; `--seed` overrides it."""
    repeat: Seconds = Seconds(0)
    """Period after which the script starts again; 0 = never."""
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) <= MAX_STEPS:
            raise ValueError(f"a script has 1 to {MAX_STEPS} steps")
        last = max(max(step.at, step.until) for step in self.steps)
        if self.repeat and (self.repeat <= last or self.repeat < SHORTEST_S):
            raise ValueError(f"repeat must be later than the last step, {last:g} s")


class Due(NamedTuple):
    """A step of a script whose time has come."""

    at: float
    """Seconds since the start of the script."""
    number: int
    """Number of the step in its script."""
    times: int
    """Number of times that the step was due before."""
    step: Step


def timeline(script: Script) -> Iterator[Due]:
    """Yield the steps in order of time, without end where the script or a step repeats."""
    counts: Counter[int] = Counter()
    begun = 0.0
    while True:
        for at, number in _round(script):
            yield Due(begun + at, number, counts[number], script.steps[number])
            counts[number] += 1
        if not script.repeat:
            return
        begun += script.repeat


def _round(script: Script) -> Iterator[tuple[float, int]]:
    due = [(float(step.at), number, 0) for number, step in enumerate(script.steps)]
    heapq.heapify(due)
    while due:
        at, number, times = heapq.heappop(due)
        yield at, number
        step = script.steps[number]
        following = step.at + (times + 1) * step.every
        if step.every and _comes(following, step, script):
            heapq.heappush(due, (following, number, times + 1))


def _comes(at: float, step: Step, script: Script) -> bool:
    return at <= step.until if step.until else at < (script.repeat or math.inf)


def read_bad_day(path: Path) -> Script:
    """Read a script. Raises ScriptInvalid, one line that names the place."""
    return read_script(path, Script)
