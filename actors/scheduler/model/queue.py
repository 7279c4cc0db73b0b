"""Queue of unscheduled pods. Pure: callers pass the time in seconds.

Pods of higher priority are tried first, as upstream. A pod that did not fit is tried again after its backoff, once
something changed that can help it. Such a change during an attempt counts as well: the attempt may have looked before.
While nothing else is due, such a pod need not wait for the end of its backoff, as upstream (SchedulerPopFromBackoffQ).
After FLUSH_S it is tried again in any case: no wake-up is forgotten for ever.
"""

from collections import defaultdict
from itertools import chain, islice, takewhile

import msgspec

from actors.scheduler.model.changes import Changes
from protocols.process.rates import backoff_delay

INITIAL_BACKOFF_S, MAX_BACKOFF_S = 1.0, 10.0
EARLY_S = 0.03
"""Shortest time between two pods that are tried before their backoff is over; for each one, INITIAL_BACKOFF_S."""
FLUSH_S = 300.0
"""Longest wait for a topic: upstream's for its queue of unschedulable pods."""
NODE_CHANGE = "nodes"
"""Topic of every pod that did not fit: a node or the labels of a namespace changed."""
ROOM = "room"
"""Topic of pods that others keep from a node: one of them left or requests less, or whatever NODE_CHANGE stands for."""
Topics = frozenset[str]
ANY_ROOM: Topics = frozenset((ROOM,))
LOWEST = -(2**31)
NOTHING: Topics = frozenset()


class _QueuedPod(msgspec.Struct):
    attempts: int = 0
    not_before: float = 0.0
    early: float = 0.0
    """When it may be tried, `not_before` or sooner, if nothing else is due."""
    topics: Topics = NOTHING
    """Topics that wake the pod."""
    priority: int = 0


class Queue:
    """Costs are proportional to the pods that are due or woken, not to those that wait."""

    def __init__(self) -> None:
        self._pods: dict[str, _QueuedPod] = {}
        self._due: dict[str, None] = {}
        """In the order in which they became due."""
        self._in_progress: dict[str, int] = {}
        """With the position in the changes at which the attempt began."""
        self._changes = Changes()
        """Changes of topics."""
        self._by_topic: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Waiting pods by topic."""
        self._flush_at: dict[str, float] = {}
        """When waiting pods are tried again, earliest first."""
        self._newest = LOWEST
        """Highest priority of the pods that became due since `ready`."""
        self._next_early = 0.0

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def counts(self, now: float) -> dict[str, int]:
        """Return the number of pods in each of upstream's queues."""
        active = sum(
            self._pods[uid].not_before <= now or uid in self._in_progress
            for uid in self._due.keys() | self._in_progress.keys()
        )
        backoff = len(self._due.keys() | self._in_progress.keys()) - active
        return {"active": active, "backoff": backoff, "unschedulable": len(self._pods) - active - backoff}

    def add(self, uid: str, priority: int | None = None) -> None:
        """Add a new or changed pod; None leaves its priority as it is."""
        queued = self._pods.setdefault(uid, _QueuedPod())
        queued.priority = queued.priority if priority is None else priority
        self._wake(uid)

    def remove(self, uid: str) -> None:
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._unsubscribe(uid, queued)
        self._due.pop(uid, None)
        self._in_progress.pop(uid, None)

    def waits_for(self, uid: str, now: float) -> str:
        """Return in words what a pod waits for; empty for one that is gone or being tried."""
        queued = self._pods.get(uid)
        if queued is None or uid in self._in_progress:
            return ""
        if queued.topics:
            return f"a change of {', '.join(sorted(queued.topics))}"
        return "its backoff" if queued.not_before > now else "its turn"

    def changed(self, *topics: str) -> bool:
        """Wake pods that wait for a topic, and return True if there are any; those in progress find it at their end."""
        for topic in topics:
            self._changes.mark(topic)
        woken = [uid for topic in topics for uid in self._by_topic.get(topic, ())]
        for uid in woken:
            self._wake(uid)
        return bool(woken)

    def ready(self, now: float) -> list[str]:
        """Return the pods to try now: by priority, then in the order in which they became due."""
        self._flush(now)
        self._newest = LOWEST
        waiting = [uid for uid in self._due if uid not in self._in_progress]
        due = [uid for uid in waiting if self._pods[uid].not_before <= now]
        return sorted(due, key=lambda uid: -self._pods[uid].priority) or self._early(waiting, now)

    def _early(self, waiting: list[str], now: float) -> list[str]:
        """Return the pod to try before its backoff is over: by priority, then the one whose backoff ends first."""
        early = [uid for uid in waiting if max(self._pods[uid].early, self._next_early) <= now]
        if not early:
            return []
        self._next_early = now + EARLY_S
        return [min(early, key=lambda uid: (-self._pods[uid].priority, self._pods[uid].not_before))]

    def is_outranked(self, uid: str) -> bool:
        """Return True if a pod of higher priority became due since `ready` returned this one."""
        queued = self._pods.get(uid)
        return queued is not None and queued.priority < self._newest

    def start(self, uid: str) -> bool:
        """Start an attempt. Return False if the pod is gone."""
        if uid not in self._pods or uid in self._in_progress:
            return False
        self._unsubscribe(uid, self._pods[uid])
        self._due.pop(uid, None)
        self._in_progress[uid] = self._changes.position
        return True

    def failed(self, uid: str, now: float, topics: Topics = ANY_ROOM) -> None:
        """Record a failed attempt: back off 1, 2, 4, 8, 10 s, and wait for a topic."""
        if queued := self._pods.get(uid):
            queued.attempts += 1
            queued.not_before = now + backoff_delay(queued.attempts, INITIAL_BACKOFF_S, MAX_BACKOFF_S)
            queued.early = min(queued.not_before, now + INITIAL_BACKOFF_S)
            self._subscribe(uid, queued, topics, now)

    def park(self, uid: str, now: float, topics: Topics) -> None:
        """Wait for a topic without backoff: something is missing that is about to appear."""
        if queued := self._pods.get(uid):
            self._subscribe(uid, queued, topics, now)

    def resume(self, uid: str) -> None:
        """Try again once the backoff is over, whatever changes; an attempt that was left to something slow ends."""
        if uid in self._pods:
            self._in_progress.pop(uid, None)
            self._wait_out(uid)

    def retry(self, uid: str, now: float) -> None:
        """Back off after an attempt that failed itself, and try again without waiting for a change."""
        self.failed(uid, now)
        if uid in self._pods:
            self._wait_out(uid)

    def next_at(self) -> float | None:
        """Return when the earliest backoff or the longest wait ends, or None if no pod waits."""
        waiting = [self._pods[uid] for uid in self._due if uid not in self._in_progress]
        backoffs = (min(each.not_before, max(each.early, self._next_early)) for each in waiting)
        return min(chain(backoffs, islice(self._flush_at.values(), 1)), default=None)

    def _flush(self, now: float) -> None:
        overdue = takewhile(lambda waiting: waiting[1] <= now, self._flush_at.items())
        for uid, _ in list(overdue):
            self._wake(uid)

    def _wait_out(self, uid: str) -> None:
        """Let a pod be tried when its backoff is over, not before: nothing changed."""
        self._pods[uid].early = self._pods[uid].not_before
        self._wake(uid)

    def _wake(self, uid: str) -> None:
        self._unsubscribe(uid, self._pods[uid])
        self._due.setdefault(uid)
        self._newest = max(self._newest, self._pods[uid].priority)

    def _unsubscribe(self, uid: str, queued: _QueuedPod) -> None:
        for topic in queued.topics:
            pods = self._by_topic[topic]
            pods.pop(uid, None)
            if not pods:
                del self._by_topic[topic]
        queued.topics = NOTHING
        self._flush_at.pop(uid, None)

    def _subscribe(self, uid: str, queued: _QueuedPod, topics: Topics, now: float) -> None:
        """Wait for topics, unless something changed during the attempt."""
        began = self._in_progress.pop(uid, None)
        self._unsubscribe(uid, queued)
        if began is not None and self._changes.has_any(topics, began):
            self._wake(uid)
        if uid not in self._due:
            queued.topics = topics
            self._flush_at[uid] = now + FLUSH_S
            for topic in topics:
                self._by_topic[topic][uid] = None
