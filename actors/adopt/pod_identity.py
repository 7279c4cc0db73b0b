"""Find the uid of a pod by its name: kubelet's list has no uids, but the runtime's sandboxes have.

Pure but for `list_sandboxes`: callers pass the current time in seconds.
"""

from collections.abc import Iterable, Sequence

import msgspec
from google.protobuf.message import DecodeError

from protocols.bus import Bus, Internal
from protocols.messages import cri
from protocols.messages.cri import ContainerEvent, CriCall, CriReply
from protocols.wire import cri_pb2 as pb

PodName = tuple[str, str]
"""Namespace and name."""
Held = frozenset[tuple[str, str]]
"""Devices and CPUs that no two pods hold at a time, see allocation_diff.exclusive_resources."""

MAX_SANDBOXES_PER_POD, MAX_PODS = 16, 4096
"""Bounds of what is remembered between two lists: events never report that a sandbox was removed."""
SANDBOX_WAIT_S = 3.0
"""A pod is admitted before it has a sandbox. It is held back this long, so that it has its uid from the start."""
LIST_TIMEOUT_S = 5.0


class Sandbox(msgspec.Struct, frozen=True):
    """A sandbox of the runtime, by which a pod's name leads to its uid."""

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
    """Identity of a pod."""

    uid: str
    """Published uid: that of its sandbox, or NAMESPACE/NAME."""
    sandbox_uid: str = ""
    """Uid of its sandboxes; empty while none is known."""
    held: Held = frozenset()
    """Resources that it held when it was listed last."""


class PodIdentities:
    """Uid of each listed pod.

    Names are reused: the pod of a StatefulSet is created again while the sandbox of its predecessor still lingers.
    After a forced deletion kubelet lists both for a while.

    - A pod that holds what a known pod of its name held, whose sandbox is ready, is that pod.
    - Else the newest ready sandbox that no known pod has identifies it. A known pod keeps its uid while none is ready,
      since kubelet may be about to replace its sandbox.
    - A pod that holds something else than the known pods of its name, and has no sandbox yet, is held back for it.
    - A uid is never used again once its pod ended without a ready sandbox.
    - A pod whose uid the runtime no longer has is a pod without a sandbox.
    - A pod that gets no sandbox within SANDBOX_WAIT_S is the known pod of its name; if there is none, it is published
      with the uid NAMESPACE/NAME. It keeps that until another pod has its name, since clients would take another uid
      for another pod.
    """

    def __init__(self) -> None:
        self._sandboxes: dict[PodName, dict[str, Sandbox]] = {}
        self._identities: dict[PodName, list[_Identity]] = {}
        """The newest last."""
        self._waiting_since: dict[PodName, float] = {}
        self._retired: dict[PodName, set[str]] = {}
        """Uids of earlier pods of a name; bounded by the runtime's list."""

    def restore(self, published: Iterable[tuple[PodName, str, Held]]) -> None:
        """Continue with the uids that were published before a restart."""
        self._identities = {}
        for pod, uid, held in published:
            self._identities.setdefault(pod, []).append(_Identity(uid, "" if _is_name(uid) else uid, held))

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
        for pod, known in self._identities.items():
            uids = {"", *present.get(pod, ())}
            self._identities[pod] = [identity for identity in known if identity.sandbox_uid in uids]
        retired = ((pod, uids & present.get(pod, set())) for pod, uids in self._retired.items())
        self._retired = {pod: uids for pod, uids in retired if uids}

    def identify(self, listed: Sequence[tuple[PodName, Held]], now: float) -> list[str | None]:
        """Return the uid of each pod that kubelet lists, or None while it is held back for its sandbox.

        Other pods are forgotten unless they still run: a kubelet that has just started lists nothing at first, and the
        same pods again later.
        """
        numbers: dict[PodName, list[int]] = {pod: [] for pod in self._identities}
        for number, (pod, _) in enumerate(listed):
            numbers.setdefault(pod, []).append(number)
        self._waiting_since = {pod: since for pod, since in self._waiting_since.items() if numbers.get(pod)}
        uids: list[str | None] = [None] * len(listed)
        for pod, places in numbers.items():
            identities = self._identify(pod, [listed[number][1] for number in places], now)
            for number, identity in zip(places, identities, strict=True):
                uids[number] = None if identity is None else identity.uid
        return uids

    def _identify(self, pod: PodName, items: list[Held], now: float) -> list[_Identity | None]:
        """Return the identities of all listed pods of one name."""
        known, ready = self._identities.pop(pod, []), self._ready(pod)
        identities = _matches(known, items)
        taken = {identity.sandbox_uid for identity in known}
        fresh = [uid for uid in ready if uid not in taken]
        for identity in identities:
            if identity is not None and not identity.sandbox_uid and fresh:
                identity.sandbox_uid = fresh.pop(0)
        nobodys = [place for place, identity in enumerate(identities) if identity is None]
        unsure = [place for place, one in enumerate(identities) if one and not (one.held and one.sandbox_uid in ready)]
        for uid, place in zip(fresh, [*nobodys, *unsure], strict=False):
            identities[place] = _Identity(uid, uid)
        self._wait(pod, identities, _others(known, identities), now)
        for identity, held in zip(identities, items, strict=True):
            if identity is not None:
                identity.held = held
        self._retain(pod, _others(known, identities), [identity for identity in identities if identity is not None])
        return identities

    def _wait(self, pod: PodName, found: list[_Identity | None], unlisted: list[_Identity], now: float) -> None:
        """Identify pods that waited for a sandbox in vain."""
        if None not in found:
            self._waiting_since.pop(pod, None)
        elif now - self._waiting_since.setdefault(pod, now) >= SANDBOX_WAIT_S:
            name = "/".join(pod)
            named = any(one is not None and one.uid == name for one in (*found, *unlisted))
            spare = [*unlisted[::-1], *(() if named else (_Identity(name),))]
            for place, identity in zip([n for n, one in enumerate(found) if one is None], spare, strict=False):
                found[place] = identity
            self._waiting_since.pop(pod)

    def _retain(self, pod: PodName, unlisted: list[_Identity], listed: list[_Identity]) -> None:
        """Remember the listed pods of one name, and the others that run."""
        kept = [identity for identity in unlisted if self.running(identity.uid, pod)]
        for identity in _others(unlisted, kept):
            if identity.sandbox_uid:
                self._retired.setdefault(pod, set()).add(identity.sandbox_uid)
        if kept or listed:
            self._identities[pod] = [*kept, *listed]

    def _ready(self, pod: PodName) -> list[str]:
        """Return the uids of ready sandboxes of a name, the newest first."""
        retired = self._retired.get(pod, ())
        ready = [item for item in self._sandboxes.get(pod, {}).values() if item.ready and item.uid not in retired]
        newest = sorted(ready, key=lambda item: (item.created_ns, item.uid), reverse=True)
        return list(dict.fromkeys(item.uid for item in newest))

    @property
    def waiting(self) -> bool:
        """True while a pod is held back for its sandbox."""
        return bool(self._waiting_since)

    def running(self, uid: str, pod: PodName) -> bool:
        """Return True if the pod has a ready sandbox."""
        sandboxes = self._sandboxes.get(pod, {}).values()
        return any(sandbox.ready for sandbox in sandboxes if _is_name(uid) or sandbox.uid == uid)


def _others(known: list[_Identity], found: Sequence[_Identity | None]) -> list[_Identity]:
    """Return the known pods that are not among the found."""
    these = {id(identity) for identity in found}
    return [identity for identity in known if id(identity) not in these]


def _matches(known: list[_Identity], items: list[Held]) -> list[_Identity | None]:
    """Return the known pod that each listed one is by what it holds; of those that hold nothing, the newest."""
    owners = {resource: identity for identity in known for resource in identity.held}
    matches: list[_Identity | None] = []
    used: set[int] = set()
    for held in items:
        owner = next((owners[resource] for resource in held if resource in owners), None)
        matches.append(owner if id(owner) not in used else None)
        used.add(id(owner))
    unnamed = [one for one in known if not one.sandbox_uid and id(one) not in used]
    empty = [one for one in known if one.sandbox_uid and not one.held and id(one) not in used]
    for place, held in enumerate(items):
        if matches[place] is None and (spare := empty if empty and not held else unnamed):
            matches[place] = spare.pop()
    return matches


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
    """Return all sandboxes of the runtime. Raises BusError while the runtime is unavailable, or answers garbage."""
    request = CriCall("ListPodSandbox", pb.ListPodSandboxRequest().SerializeToString())
    reply = await bus.call(cri.OWNER, cri.CALL, request, CriReply, timeout=LIST_TIMEOUT_S, idempotent=True)
    try:
        return [_sandbox(item) for item in pb.ListPodSandboxResponse.FromString(reply.response).items]
    except DecodeError as error:
        raise Internal(f"the runtime's answer to ListPodSandbox does not decode: {error}") from None


def _sandbox(status: pb.PodSandbox | pb.PodSandboxStatus) -> Sandbox:
    return Sandbox(
        id=status.id,
        uid=status.metadata.uid,
        namespace=status.metadata.namespace,
        name=status.metadata.name,
        created_ns=status.created_at,
        ready=status.state == pb.SANDBOX_READY,
    )
