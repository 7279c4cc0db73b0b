"""Pods that wait for a node: ready to be tried, or backing off after a try. Pure; time is given, in seconds.

A pod that did not fit is tried again when something changed that can help it (a node, a pod's end), after its back-off.
"""

from dataclasses import dataclass

FIRST_S, MOST_S = 1.0, 10.0


@dataclass
class Waiting:
    tries: int = 0
    not_before: float = 0.0
    due: bool = True
    """Something changed since the last try."""


class Queue:
    def __init__(self) -> None:
        self._pods: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, uid: str) -> None:
        """A pod appeared or changed: worth a try."""
        self._pods.setdefault(uid, Waiting()).due = True

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def changed(self) -> None:
        """A node or another pod changed: every waiting pod may fit now."""
        for waiting in self._pods.values():
            waiting.due = True

    def ready(self, now: float) -> list[str]:
        """Uids to try now, in order of arrival."""
        return [uid for uid, waiting in self._pods.items() if waiting.due and waiting.not_before <= now]

    def failed(self, uid: str, now: float) -> None:
        """Tried in vain: back off 1, 2, 4, 8, 10 s, and wait for a change."""
        if waiting := self._pods.get(uid):
            waiting.tries += 1
            waiting.due = False
            waiting.not_before = now + min(MOST_S, FIRST_S * 2 ** (waiting.tries - 1))

    def retry(self, uid: str, now: float) -> None:
        """The try itself broke (API away): back off, and try again without waiting for a change."""
        self.failed(uid, now)
        if waiting := self._pods.get(uid):
            waiting.due = True

    def next_at(self) -> float | None:
        """When the earliest due pod's back-off ends; None when nothing is due."""
        return min((waiting.not_before for waiting in self._pods.values() if waiting.due), default=None)
