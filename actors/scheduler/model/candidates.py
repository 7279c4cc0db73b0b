"""The vocabulary of preemption."""

from collections.abc import Mapping

import msgspec

from actors.scheduler.model.views import PodView
from protocols.dra.allocator import Holdings

Amounts = Mapping[str, int]
"""Nano-units by resource."""


class Victim(msgspec.Struct, frozen=True):
    """A pod of lower priority that may have to go."""

    uid: str
    namespace: str
    name: str
    priority: int
    started: float
    """Seconds since the epoch; of a pod that has not started yet, now."""
    labels: Mapping[str, str]
    terminating: bool
    """True if its deletion has begun: it needs no second one."""
    generation: int = 0
    created: str = ""
    """`metadata.creationTimestamp`."""


class Candidate(msgspec.Struct, frozen=True):
    """A node, and the pods that must leave for the preemptor; none if what it lacks is about to be free."""

    node: str
    victims: tuple[Victim, ...]
    """The most important first."""
    violations: int = 0
    """Victims whose PodDisruptionBudget does not allow another disruption."""


class Nomination(msgspec.Struct, frozen=True):
    """A pending pod's claim to a node: the room there is kept for it while victims terminate."""

    uid: str
    namespace: str
    name: str
    priority: int
    node: str
    requests: Amounts
    devices: Holdings = {}
    """Devices and shares of devices that it is going to get."""
    ports: tuple[tuple[str, int, str], ...] = ()
    """Protocol, port and address of its host ports."""
    unresolved: bool = False
    """True after a restart until it is known which devices its claims are going to get."""
    view: PodView | None = None
    """The pod, for its rules about other pods and those of others about it."""
