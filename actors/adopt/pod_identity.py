"""Find the uid of a pod by its name: kubelet's list has no uids, but the runtime's sandboxes have.

Pure but for `list_sandboxes`: callers pass the current time in seconds.
"""

from collections.abc import Iterable

import msgspec

from protocols.bus import Bus
from protocols.messages import cri
from protocols.messages.cri import ContainerEvent, CriCall, CriReply
from protocols.wire import cri_pb2 as pb

PodName = tuple[str, str]
"""Namespace and name."""

MAX_SANDBOXES_PER_POD, MAX_PODS = 16, 4096
"""Bounds of what is remembered between two lists: events never report that a sandbox was removed."""
SANDBOX_WAIT_S = 1.0
"""A pod is admitted before it has a sandbox. It is held back this long, so that it has its uid from the start."""
LIST_TIMEOUT_S = 5.0


class Sandbox(msgspec.Struct, frozen=True):
    id: str
    uid: str
    namespace: str
    name: str
    created_ns: int
    ready: bool

    @property
    def pod(self) -> PodName:
        return self.namespace, self.name


class PodIdentities:
    """Uid of each listed pod.

    A pod that gets no sandbox within SANDBOX_WAIT_S is published with the uid NAMESPACE/NAME and keeps it, since
    clients would take another uid for another pod.
    """

    def __init__(self) -> None:
        self._sandboxes: dict[PodName, dict[str, Sandbox]] = {}
        self._uids: dict[PodName, str] = {}
        """Uids that pods are published with."""
        self._first_listed: dict[PodName, float] = {}

    def add(self, sandbox: Sandbox) -> None:
        """Add or update a sandbox that an event reported."""
        sandboxes = self._sandboxes.setdefault(sandbox.pod, {})
        sandboxes[sandbox.id] = sandbox
        if len(sandboxes) > MAX_SANDBOXES_PER_POD:
            del sandboxes[min(sandboxes, key=lambda id: sandboxes[id].created_ns)]
        if len(self._sandboxes) > MAX_PODS:
            del self._sandboxes[next(iter(self._sandboxes))]

    def replace(self, sandboxes: Iterable[Sandbox]) -> None:
        """Replace all sandboxes by a full list."""
        self._sandboxes = {}
        for sandbox in sandboxes:
            self._sandboxes.setdefault(sandbox.pod, {})[sandbox.id] = sandbox

    def retain(self, pods: Iterable[PodName]) -> None:
        """Forget the uids of all pods but `pods`, which kubelet lists."""
        listed = set(pods)
        self._uids = {pod: uid for pod, uid in self._uids.items() if pod in listed}
        self._first_listed = {pod: since for pod, since in self._first_listed.items() if pod in listed}

    def uid_of(self, pod: PodName, now: float) -> str | None:
        """Return the uid of a listed pod, or None while it is held back for its sandbox."""
        sandboxes = self._sandboxes.get(pod, {}).values()
        newest = max(sandboxes, key=lambda sandbox: (sandbox.created_ns, sandbox.uid), default=None)
        published = self._uids.get(pod, "")
        if newest is not None and not _is_name(published):
            self._uids[pod] = newest.uid
            return newest.uid
        if published:
            return published
        if now - self._first_listed.setdefault(pod, now) < SANDBOX_WAIT_S:
            return None
        self._uids[pod] = "/".join(pod)
        return self._uids[pod]

    @property
    def waiting(self) -> bool:
        """True while a pod is held back for its sandbox."""
        return bool(self._first_listed.keys() - self._uids.keys())

    def running(self, uid: str, pod: PodName) -> bool:
        """Return True if the pod has a ready sandbox."""
        sandboxes = self._sandboxes.get(pod, {}).values()
        return any(sandbox.ready for sandbox in sandboxes if _is_name(uid) or sandbox.uid == uid)


def _is_name(uid: str) -> bool:
    return "/" in uid


def sandbox_of(event: ContainerEvent) -> Sandbox | None:
    """Return the sandbox of a runtime event, or None if the runtime does not name one."""
    try:
        status = pb.ContainerEventResponse.FromString(event.payload).pod_sandbox_status
    except Exception:  # A damaged event only costs its hint: kubelet's list decides.
        return None
    return _sandbox(status) if status.id and status.metadata.uid else None


async def list_sandboxes(bus: Bus) -> list[Sandbox]:
    """Return all sandboxes of the runtime. Raises BusError while the runtime is unavailable."""
    request = CriCall("ListPodSandbox", pb.ListPodSandboxRequest().SerializeToString())
    reply = await bus.call(cri.OWNER, cri.CALL, request, CriReply, timeout=LIST_TIMEOUT_S, idempotent=True)
    return [_sandbox(item) for item in pb.ListPodSandboxResponse.FromString(reply.response).items]


def _sandbox(status: pb.PodSandbox | pb.PodSandboxStatus) -> Sandbox:
    return Sandbox(
        id=status.id,
        uid=status.metadata.uid,
        namespace=status.metadata.namespace,
        name=status.metadata.name,
        created_ns=status.created_at,
        ready=status.state == pb.SANDBOX_READY,
    )
