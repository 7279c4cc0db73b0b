"""Pods that wait for a node: ready to be tried, being tried, or backing off. Pure; time is given, in seconds.

A pod that did not fit is tried again when something changed that can help it, after its back-off. A change that comes
while a pod is being tried counts for it, whatever the try is about to find: it may have looked before.
"""

from collections import defaultdict
from dataclasses import dataclass

FIRST_S, MOST_S = 1.0, 10.0
ROOM = "room"
"""What every pod that did not fit waits for: a node changed, or a pod left one."""
Topics = frozenset[str]
ANY_ROOM: Topics = frozenset((ROOM,))
NOTHING: Topics = frozenset()


@dataclass
class Waiting:
    tries: int = 0
    not_before: float = 0.0
    topics: Topics = NOTHING
    """What it sleeps until."""


class Queue:
    """Costs what is due and what wakes up, not what waits."""

    def __init__(self) -> None:
        self._pods: dict[str, Waiting] = {}
        self._due: dict[str, None] = {}
        """In the order in which they became it."""
        self._trying: set[str] = set()
        self._asleep: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Topic -> pods that wait for it."""

    def __len__(self) -> int:
        return len(self._pods)

    def counts(self, now: float) -> dict[str, int]:
        """How many are where, by upstream's names of queues."""
        active = sum(
            self._pods[uid].not_before <= now or uid in self._trying for uid in self._due.keys() | self._trying
        )
        waiting = len(self._due.keys() | self._trying) - active
        return {"active": active, "backoff": waiting, "unschedulable": len(self._pods) - active - waiting}

    def add(self, uid: str) -> None:
        """A pod appeared or changed: worth a try."""
        self._pods.setdefault(uid, Waiting())
        self._wake(uid)

    def remove(self, uid: str) -> None:
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            self._rouse(uid, waiting)
        self._due.pop(uid, None)
        self._trying.discard(uid)

    def changed(self, *topics: str) -> bool:
        """Pods that wait for one of these may fit now, and all that are being tried; True if there are any."""
        woken = [uid for uid in self._trying if uid not in self._due]
        for topic in topics or (ROOM,):
            woken += self._asleep.get(topic, ())
        for uid in woken:
            self._wake(uid)
        return bool(woken)

    def ready(self, now: float) -> list[str]:
        """Uids to try now, in the order in which they became due."""
        return [uid for uid in self._due if self._pods[uid].not_before <= now and uid not in self._trying]

    def trying(self, uid: str) -> bool:
        """The pod is taken up; False if it went meanwhile."""
        if uid not in self._pods or uid in self._trying:
            return False
        self._wake(uid)
        del self._due[uid]
        self._trying.add(uid)
        return True

    def failed(self, uid: str, now: float, topics: Topics = ANY_ROOM) -> None:
        """Tried in vain: back off 1, 2, 4, 8, 10 s, and wait for a change."""
        if waiting := self._pods.get(uid):
            waiting.tries += 1
            waiting.not_before = now + min(MOST_S, FIRST_S * 2 ** min(waiting.tries - 1, 10))
            self._sleep(uid, waiting, topics)

    def gated(self, uid: str, topics: Topics) -> None:
        """Not tried, as something is missing that is about to come: no back-off."""
        if waiting := self._pods.get(uid):
            self._sleep(uid, waiting, topics)

    def retry(self, uid: str, now: float) -> None:
        """The try itself broke (API away): back off, and try again without waiting for a change."""
        self.failed(uid, now)
        if uid in self._pods:
            self._wake(uid)

    def next_at(self) -> float | None:
        """When the earliest due pod's back-off ends; None when nothing is due."""
        return min((self._pods[uid].not_before for uid in self._due if uid not in self._trying), default=None)

    def _wake(self, uid: str) -> None:
        self._rouse(uid, self._pods[uid])
        self._due.setdefault(uid)

    def _rouse(self, uid: str, waiting: Waiting) -> None:
        for topic in waiting.topics:
            sleepers = self._asleep[topic]
            sleepers.pop(uid, None)
            if not sleepers:
                del self._asleep[topic]
        waiting.topics = NOTHING

    def _sleep(self, uid: str, waiting: Waiting, topics: Topics) -> None:
        """Unless something changed while it was tried."""
        self._trying.discard(uid)
        self._rouse(uid, waiting)
        if uid not in self._due:
            waiting.topics = topics
            for topic in topics:
                self._asleep[topic][uid] = None
