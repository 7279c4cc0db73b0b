"""Nominated pods: pending pods for which victims are leaving a node. Pure.

Their requests and devices count as taken for pods of the same or a lower priority, so that nobody else moves in and
none of them has to preempt again. A nomination ends when its pod is bound or deleted.
"""

from collections import defaultdict
from collections.abc import Container, Iterator

from actors.scheduler.model.candidates import Nomination
from protocols.dra.allocator import Holdings
from protocols.dra.allocator.shares import together


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
        return [each for each in pods if each.uid != uid and each.priority >= priority]

    def below(self, priority: int, node: str) -> list[Nomination]:
        """Return the nominations to a node that a pod of this priority overrides."""
        return [each for each in self._by_node.get(node, {}).values() if each.priority < priority]

    def devices_ahead_of(self, uid: str, priority: int, placed: Container[str] = ()) -> Holdings:
        """Return the devices and shares that are kept for others, at least of this priority; `placed` have theirs."""
        ahead = (each for each in self._by_uid.values() if each.uid != uid and each.priority >= priority)
        return together(each.devices for each in ahead if each.uid not in placed)
