"""Pods that wait for a node: ready to be tried, being tried, or backing off. Pure; time is given, in seconds.

A pod that did not fit is tried again when something changed that can help it, after its back-off. A change that comes
while a pod is being tried counts for it, whatever the try is about to find: it may have looked before.
"""

from dataclasses import dataclass, field

FIRST_S, MOST_S = 1.0, 10.0
ROOM = "room"
"""What every pod that did not fit waits for: a node changed, or a pod left one."""
Topics = frozenset[str]
ANY_ROOM: Topics = frozenset((ROOM,))


@dataclass
class Waiting:
    tries: int = 0
    not_before: float = 0.0
    due: bool = True
    """Something changed since the last try."""
    trying: bool = False
    topics: Topics = field(default=ANY_ROOM)
    """What can help; any change can while it is being tried."""


class Queue:
    def __init__(self) -> None:
        self._pods: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def counts(self, now: float) -> dict[str, int]:
        """How many are where, by upstream's names of queues."""
        found = {"active": 0, "backoff": 0, "unschedulable": 0}
        for waiting in self._pods.values():
            if not waiting.due and not waiting.trying:
                found["unschedulable"] += 1
            else:
                found["active" if waiting.trying or waiting.not_before <= now else "backoff"] += 1
        return found

    def add(self, uid: str) -> None:
        """A pod appeared or changed: worth a try."""
        self._pods.setdefault(uid, Waiting()).due = True

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def changed(self, *topics: str) -> bool:
        """Pods that wait for one of these may fit now; True if there are any."""
        topics = topics or (ROOM,)
        woken = False
        for waiting in self._pods.values():
            if not waiting.due and (waiting.trying or not waiting.topics.isdisjoint(topics)):
                waiting.due = woken = True
        return woken

    def ready(self, now: float) -> list[str]:
        """Uids to try now, in order of arrival."""
        return [
            uid
            for uid, waiting in self._pods.items()
            if waiting.due and waiting.not_before <= now and not waiting.trying
        ]

    def trying(self, uid: str) -> bool:
        """The pod is taken up; False if it went meanwhile."""
        waiting = self._pods.get(uid)
        if waiting is None or waiting.trying:
            return False
        waiting.trying, waiting.due = True, False
        return True

    def failed(self, uid: str, now: float, topics: Topics = ANY_ROOM) -> None:
        """Tried in vain: back off 1, 2, 4, 8, 10 s, and wait for a change."""
        if waiting := self._pods.get(uid):
            waiting.tries += 1
            waiting.due = waiting.trying and waiting.due
            waiting.trying = False
            waiting.topics = topics
            waiting.not_before = now + min(MOST_S, FIRST_S * 2 ** min(waiting.tries - 1, 10))

    def gated(self, uid: str, topics: Topics) -> None:
        """Not tried, as something is missing that is about to come: no back-off."""
        if waiting := self._pods.get(uid):
            waiting.due = waiting.trying and waiting.due
            waiting.trying = False
            waiting.topics = topics

    def retry(self, uid: str, now: float) -> None:
        """The try itself broke (API away): back off, and try again without waiting for a change."""
        self.failed(uid, now)
        if waiting := self._pods.get(uid):
            waiting.due = True

    def next_at(self) -> float | None:
        """When the earliest due pod's back-off ends; None when nothing is due."""
        waits = (each.not_before for each in self._pods.values() if each.due and not each.trying)
        return min(waits, default=None)
