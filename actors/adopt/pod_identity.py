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
SANDBOX_WAIT_S = 3.0
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


class _Identity(msgspec.Struct):
    """Identity of a listed pod."""

    uid: str
    """Published uid: that of its sandbox, or NAMESPACE/NAME."""
    sandbox_uid: str = ""
    """Uid of its sandboxes; empty while none is known."""


class PodIdentities:
    """Uid of each listed pod.

    Names are reused: the pod of a StatefulSet is created again while the sandbox of its predecessor still lingers.

    - The newest ready sandbox identifies the pod of its name. A known pod keeps its uid while none is ready, since
      kubelet may be about to replace its sandbox.
    - A uid is never used again once its pod was replaced, or ended without a ready sandbox.
    - A pod whose uid the runtime no longer has is a pod without a sandbox.
    - A pod that gets no sandbox within SANDBOX_WAIT_S is published with the uid NAMESPACE/NAME. It keeps that until
      another pod has its name, since clients would take another uid for another pod.
    """

    def __init__(self) -> None:
        self._sandboxes: dict[PodName, dict[str, Sandbox]] = {}
        self._identities: dict[PodName, _Identity] = {}
        self._waiting_since: dict[PodName, float] = {}
        self._retired: dict[PodName, set[str]] = {}
        """Uids of earlier pods of a name; bounded by the runtime's list."""

    def restore(self, published: Iterable[tuple[PodName, str]]) -> None:
        """Continue with the uids that were published before a restart."""
        self._identities = {pod: _Identity(uid, "" if _is_name(uid) else uid) for pod, uid in published}

    def add(self, sandbox: Sandbox) -> None:
        """Add or update a sandbox that an event reported."""
        sandboxes = self._sandboxes.setdefault(sandbox.pod, {})
        sandboxes[sandbox.id] = sandbox
        if len(sandboxes) > MAX_SANDBOXES_PER_POD:
            del sandboxes[min(sandboxes, key=lambda id: sandboxes[id].created_ns)]
        if len(self._sandboxes) > MAX_PODS:
            del self._sandboxes[next(iter(self._sandboxes))]

    def replace(self, sandboxes: Iterable[Sandbox]) -> None:
        """Replace all sandboxes by a full list, and forget each uid that is not in it."""
        self._sandboxes = {}
        for sandbox in sandboxes:
            self._sandboxes.setdefault(sandbox.pod, {})[sandbox.id] = sandbox
        present = {pod: {item.uid for item in items.values()} for pod, items in self._sandboxes.items()}
        for pod, identity in list(self._identities.items()):
            if identity.sandbox_uid and identity.sandbox_uid not in present.get(pod, ()):
                del self._identities[pod]
        retired = ((pod, uids & present.get(pod, set())) for pod, uids in self._retired.items())
        self._retired = {pod: uids for pod, uids in retired if uids}

    def retain(self, pods: Iterable[PodName]) -> None:
        """Forget all pods but `pods`, which kubelet lists, and those that still run.

        A kubelet that has just started lists nothing, and lists the same pods again later.
        """
        listed = set(pods)
        for pod in self._identities.keys() - listed:
            if not self.running(self._identities[pod].uid, pod):
                self._retire(pod, self._identities.pop(pod))
        self._waiting_since = {pod: since for pod, since in self._waiting_since.items() if pod in listed}

    def uid_of(self, pod: PodName, now: float) -> str | None:
        """Return the uid of a listed pod, or None while it is held back for its sandbox."""
        identity = self._identities.get(pod)
        sandbox = self._ready_sandbox(pod)
        if identity is not None and sandbox is not None and identity.sandbox_uid not in ("", sandbox.uid):
            self._retire(pod, identity)
            identity = None
        if identity is None:
            if sandbox is None and now - self._waiting_since.setdefault(pod, now) < SANDBOX_WAIT_S:
                return None
            identity = self._identities[pod] = _Identity(sandbox.uid if sandbox else "/".join(pod))
            self._waiting_since.pop(pod, None)
        if sandbox is not None:
            identity.sandbox_uid = sandbox.uid
        return identity.uid

    def _ready_sandbox(self, pod: PodName) -> Sandbox | None:
        retired = self._retired.get(pod, ())
        ready = [item for item in self._sandboxes.get(pod, {}).values() if item.ready and item.uid not in retired]
        return max(ready, key=lambda item: (item.created_ns, item.uid), default=None)

    def _retire(self, pod: PodName, identity: _Identity) -> None:
        if identity.sandbox_uid:
            self._retired.setdefault(pod, set()).add(identity.sandbox_uid)

    @property
    def waiting(self) -> bool:
        """True while a pod is held back for its sandbox."""
        return bool(self._waiting_since)

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
