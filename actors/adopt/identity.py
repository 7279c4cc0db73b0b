"""Which pod a name is: kubelet's list has no uids, the runtime's sandboxes have. Pure: the caller brings the time."""

from collections.abc import Iterable

import msgspec

Name = tuple[str, str]
"""Namespace and name."""
MOST_EACH, MOST_PODS = 16, 4096
"""Sandboxes remembered of one pod, and pods: events alone never tell that one is gone."""
HOLD_S = 1.0
"""A pod is admitted before it has a sandbox: this long it is not told of, so that it has its uid from the start."""


class Sandbox(msgspec.Struct, frozen=True):
    id: str
    uid: str
    namespace: str
    name: str
    created_ns: int
    ready: bool

    @property
    def pod(self) -> Name:
        return self.namespace, self.name


class Identities:
    def __init__(self) -> None:
        self._sandboxes: dict[Name, dict[str, Sandbox]] = {}
        self._given: dict[Name, str] = {}
        """What a pod was told as. It stays, or a client would see another pod."""
        self._since: dict[Name, float] = {}

    def seen(self, sandbox: Sandbox) -> None:
        """An event told of it."""
        boxes = self._sandboxes.setdefault(sandbox.pod, {})
        boxes[sandbox.id] = sandbox
        if len(boxes) > MOST_EACH:
            del boxes[min(boxes, key=lambda id: boxes[id].created_ns)]
        if len(self._sandboxes) > MOST_PODS:
            del self._sandboxes[next(iter(self._sandboxes))]

    def replace(self, sandboxes: Iterable[Sandbox]) -> None:
        """All there are."""
        self._sandboxes = {}
        for sandbox in sandboxes:
            self._sandboxes.setdefault(sandbox.pod, {})[sandbox.id] = sandbox

    def uid_of(self, pod: Name, now: float) -> str | None:
        """None: not known yet. A pod that gets no sandbox in time is told under a name of its own."""
        boxes = self._sandboxes.get(pod, {}).values()
        newest = max(boxes, key=lambda box: (box.created_ns, box.uid), default=None)
        given = self._given.get(pod, "")
        if newest is not None and not _made_up(given):
            self._given[pod] = newest.uid
            return newest.uid
        if given:
            return given
        if now - self._since.setdefault(pod, now) < HOLD_S:
            return None
        self._given[pod] = "/".join(pod)
        return self._given[pod]

    def listed(self, pods: Iterable[Name]) -> None:
        """These are listed now; what was noted of others is over."""
        names = set(pods)
        self._given = {pod: uid for pod, uid in self._given.items() if pod in names}
        self._since = {pod: since for pod, since in self._since.items() if pod in names}

    @property
    def waits(self) -> bool:
        """Somebody is held back."""
        return bool(self._since.keys() - self._given.keys())

    def alive(self, uid: str, pod: Name) -> bool:
        """Whether the runtime has a sandbox of it that is ready."""
        boxes = self._sandboxes.get(pod, {}).values()
        return any(box.ready for box in boxes if _made_up(uid) or box.uid == uid)


def _made_up(uid: str) -> bool:
    return "/" in uid
