"""Creations and deletions of pods that the informer has not shown yet. Pure; times are monotonic seconds.

A controller decides about pods only when the informer shows all that it did before, or it would do it twice. Pods
are expected by name, chosen before the request, so that a request whose answer was lost can be looked up.
"""

from collections import defaultdict


class Expectations:
    """Own creations and deletions that the informer does not show yet, by owner uid.

    Memory is bounded by the requests of one pass of each owner.
    """

    def __init__(self) -> None:
        self._created: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Time of each expected creation, by name."""
        self._deleted: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        """Time of each expected deletion, by name and uid."""

    def will_create(self, owner: str, name: str, now: float) -> None:
        self._created[owner][name] = now

    def will_delete(self, owner: str, name: str, uid: str, now: float) -> None:
        self._deleted[owner][name, uid] = now

    def seen(self, owner: str, name: str) -> None:
        """Call it when the informer shows the pod, or its creation was rejected."""
        if owner in self._created:
            self._created[owner].pop(name, None)
            if not self._created[owner]:
                del self._created[owner]

    def gone(self, owner: str, name: str, uid: str) -> None:
        """Call it when the informer shows the deletion, or the deletion was rejected."""
        if owner in self._deleted:
            self._deleted[owner].pop((name, uid), None)
            if not self._deleted[owner]:
                del self._deleted[owner]

    def met(self, owner: str) -> bool:
        return owner not in self._created and owner not in self._deleted

    def overdue(self, owner: str, now: float, after: float) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the creations (names) and deletions (names and uids) expected for longer than `after` seconds."""
        created, deleted = self._created.get(owner, {}), self._deleted.get(owner, {})
        return [name for name, at in created.items() if now - at >= after], [
            pod for pod, at in deleted.items() if now - at >= after
        ]

    def forget(self, owner: str) -> None:
        self._created.pop(owner, None)
        self._deleted.pop(owner, None)
