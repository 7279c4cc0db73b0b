"""Inputs of one step of a simulated pod, and the work that it leaves to its caller."""

from collections.abc import Mapping

import msgspec

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.status.events import PodEvent


class StepInputs(msgspec.Struct, frozen=True):
    """What a step reads beside the pod itself."""

    now_ns: int
    """Wall clock."""
    now: float
    """Seconds of a clock that never steps, as `Devices` counts them."""
    start_s: float = 0.0
    """Seconds from admission until containers run."""
    claims: Mapping[str, views.ResourceClaim | None] = {}
    """The claims that the last outcome asked for, by name; None for one that does not exist."""


class Outcome(msgspec.Struct):
    """Work for the caller after a step."""

    patch: Object | None = None
    """Body of PATCH pods/NAME/status."""
    delete: bool = False
    """Delete the pod now, with grace period 0."""
    wake_ns: int = 0
    """Time of the next step; 0 for not before something changes."""
    claims: tuple[str, ...] = ()
    """Names of the ResourceClaims to read before the next step."""
    events: list[PodEvent] = msgspec.field(default_factory=list)
