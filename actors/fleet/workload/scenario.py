"""A scenario as types: a profile, the share of its devices that is filled first, then pods that come and go.

The first question of this kind is Kubernetes' own (kubernetes#131198): eight GPUs a node, one GPU a pod by a claim
template, filled to 90 %, then short-lived pods at a steady rate: what does the start of a pod take?
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.fleet.profiles.catalog import builtin_files
from actors.fleet.profiles.profile import MAX_PROFILE_BYTES
from protocols.kube.names import subdomain_faults
from protocols.kube.resource_names import is_extended
from protocols.process.scripts import Seconds, read_script

MAX_PODS, MAX_RATE, MAX_TOGETHER, HALF = 100_000, 1_000.0, 1_000, 0.5


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A request of a claim, as the API has it; where it names no DeviceClass it gets the scenario's."""

    name: str
    exactly: dict[str, Any] | None = None
    first_available: tuple[dict[str, Any], ...] = ()


class ClaimDevices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`spec.devices` of a ResourceClaim."""

    requests: tuple[RequestSpec, ...]
    constraints: tuple[dict[str, Any], ...] = ()


ONE_DEVICE = ClaimDevices(requests=(RequestSpec(name="device", exactly={}),))


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Where `fill` and `rate` are both 0 nothing is measured but the nodes themselves."""

    profile: str
    """Name of a profile, or the path of one relative to the scenario."""
    nodes: int
    """Number of nodes; --nodes overrides it."""
    driver: str = ""
    """DRA driver: each pod has a claim of its own, made from a template. Without a driver and a resource pods need no
    device."""
    devices: ClaimDevices = ONE_DEVICE
    """`spec.devices` of each claim: by default one device."""
    pods_per_claim: int = 0
    """Number of pods that share a claim, which is made by its name; 0: each pod has one by a template."""
    taint: dict[str, str] = {}
    """Key, value and effect with which a DeviceTaintRule taints all devices of the driver."""
    resource: str = ""
    """Extended resource: each pod has one. It is a device plugin's, or with a driver that of the DeviceClass, and then
    the scheduler makes the claims."""
    per_node: int = 8
    """Pods that one node can have at once by its devices."""
    fill: float = 0.9
    """Share of what the nodes can have that is filled first, with pods that stay."""
    rate: float = 10.0
    """Pods a second that come after that, at most: they never need more than half of what is free; 0 = none."""
    seconds: Seconds = Seconds(30)
    """Duration of the second phase."""
    together: int = 0
    """Instead of a rate: so many pods at once, each followed by another when it has ended and is deleted."""
    lives: Seconds = Seconds(5)
    """Duration of the run of each pod of the second phase."""

    def __post_init__(self) -> None:
        if fault := next(self._faults(), ""):
            raise ValueError(fault)

    def _faults(self) -> Iterator[str]:
        own_claims = self.devices != ONE_DEVICE or self.pods_per_claim
        if self.driver and (faults := subdomain_faults(self.driver)):
            yield f"driver {self.driver!r:.64}: {faults[0]}"
        if self.resource and not is_extended(self.resource):
            yield f"{self.resource!r:.64} is no extended resource; write a name such as example.com/gpu"
        if not self.driver and (own_claims or self.taint):
            yield "devices, podsPerClaim and taint need a driver"
        if self.driver and self.resource and own_claims:
            yield "the scheduler makes the claims for a resource: leave devices and podsPerClaim out"
        yield from self._numbers()

    def _numbers(self) -> Iterator[str]:
        if not (0 <= self.fill <= 1 and 0 <= self.rate <= MAX_RATE and 1 <= self.per_node <= 1_000):
            yield f"fill must be 0 to 1, rate 0 to {MAX_RATE:.0f}, perNode 1 to 1000"
        if not (0 <= self.together <= MAX_TOGETHER and 0 <= self.pods_per_claim <= MAX_TOGETHER):
            yield f"together and podsPerClaim must be 0 to {MAX_TOGETHER}"
        if self.together and not self.lives:
            yield "pods that follow each other must end: lives must not be 0"
        if self.rate * self.seconds > MAX_PODS:
            yield f"rate times seconds must be at most {MAX_PODS} pods"

    def filling(self, nodes: int) -> int:
        """Return how many pods fill that many nodes."""
        return min(MAX_PODS, int(self.fill * self.per_node * nodes))

    def steady_rate(self, nodes: int) -> float:
        """Return the pods a second of the second phase on that many nodes."""
        free = self.per_node * nodes - self.filling(nodes)
        return min(self.rate, HALF * free / self.lives) if self.lives else self.rate


def builtin_scenarios() -> dict[str, Path]:
    """Return the scenarios that come along, by name."""
    return builtin_files(__file__)


class _Head(msgspec.Struct):
    """Key that a scenario has and a profile has not."""

    profile: str = ""


class Found(NamedTuple):
    """A scenario, with the profile of its nodes."""

    scenario: Scenario
    profile: str
    """Its profile: a name, or a path from here."""


def find_scenario(text: str) -> Found | None:
    """Return the scenario of this name or file; None for a name that none has, and a file that names no profile.

    Raises ScriptInvalid.
    """
    path = builtin_scenarios().get(text, Path(text))
    if not path.is_file() or not read_script(path, _Head, MAX_PROFILE_BYTES).profile:
        return None
    scenario = read_script(path, Scenario)
    beside = path.parent / scenario.profile
    return Found(scenario, str(beside) if beside.is_file() else scenario.profile)
