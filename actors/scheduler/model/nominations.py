"""The vocabulary of preemption, and nominated pods: pending pods for which victims are leaving a node. Pure.

Their requests and devices count as taken for pods of the same or a lower priority, so that nobody else moves in and
none of them has to preempt again. A nomination ends when its pod is bound or deleted.
"""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping

import msgspec

from actors.scheduler.model.views import PodView
from protocols.dra.allocator.shares import together
from protocols.dra.allocator.types import Holdings

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


class Nominations:
    """Bounded by the pending pods: each has one at most."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Nomination] = {}
        self._by_node: defaultdict[str, dict[str, Nomination]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Nomination | None:
        return self._by_uid.get(uid)

    def nodes(self) -> Iterator[str]:
        return iter(list(self._by_node))

    def add(self, nomination: Nomination) -> None:
        """Add or replace a pod's nomination."""
        self.remove(nomination.uid)
        self._by_uid[nomination.uid] = nomination
        self._by_node[nomination.node][nomination.uid] = nomination

    def remove(self, uid: str) -> Nomination | None:
        nomination = self._by_uid.pop(uid, None)
        if nomination is not None:
            pods = self._by_node[nomination.node]
            del pods[uid]
            if not pods:
                del self._by_node[nomination.node]
        return nomination

    def ahead_of(self, uid: str, priority: int, node: str) -> list[Nomination]:
        """Return the nominations to a node that a pod has to respect: of others, at least of its priority."""
        pods = self._by_node.get(node, {}).values()
        return [pod for pod in pods if pod.uid != uid and pod.priority >= priority]

    def below(self, priority: int, node: str) -> list[Nomination]:
        """Return the nominations to a node that a pod of this priority overrides."""
        return [nomination for nomination in self._by_node.get(node, {}).values() if nomination.priority < priority]

    def devices_ahead_of(self, uid: str, priority: int, placed: Container[str] = ()) -> Holdings:
        """Return the devices and shares that are kept for others, at least of this priority; `placed` have theirs."""
        ahead = (
            nomination
            for nomination in self._by_uid.values()
            if nomination.uid != uid and nomination.priority >= priority
        )
        return together(nomination.devices for nomination in ahead if nomination.uid not in placed)
