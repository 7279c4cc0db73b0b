"""Client of the runtime, through the cri actor: list everything with two calls, or inspect one pod."""

import time
from collections import defaultdict
from typing import TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from actors.pleg.state_machine.cri_status import POD_UID_LABEL, container_status, pod_status, sandbox_status, sane_stamp
from actors.pleg.state_machine.lifecycle_events import EXITED, RUNNING, UNKNOWN, States
from protocols.bus import Bus, BusError
from protocols.errors import NodeplaneError
from protocols.messages import cri as messages
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.wire import cri_pb2 as cri


class RelistFailed(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when the runtime could not be listed or a pod not be inspected; the next relist tries again."""


class InspectionFailed(RelistFailed):
    """Raised when the runtime's answer for one pod is unusable; other pods may still be inspected."""


CALL_TIMEOUT_S = 120.0
M = TypeVar("M", bound=Message)
_STATES = {cri.CONTAINER_RUNNING: RUNNING, cri.CONTAINER_EXITED: EXITED}


class Inspection(msgspec.Struct, frozen=True):
    """Status of one pod as the runtime gave it; None if it has nothing of the pod."""

    uid: str
    status: PodStatus | None
    stamp: int
    """Our clock before the first call, ns."""
    runtime_ns: int
    """The runtime's timestamp of its answers; 0 if there is none that is sane."""
    stamped: bool | None
    """True if the runtime stamped its answers; None if there was no sandbox to see it on."""


class RuntimeClient:
    """Calls to the runtime.

    Every method raises RelistFailed when the runtime or cri is unavailable or gives an unusable answer; in the second
    case `inspect` raises InspectionFailed.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def snapshot(self) -> dict[str, States]:
        """Return the state of every sandbox and container by id, by pod uid."""
        sandboxes = await self._ask("ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse)
        containers = await self._ask("ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse)
        pods: dict[str, dict[str, str]] = defaultdict(dict)
        owners = {sandbox.id: sandbox.metadata.uid for sandbox in sandboxes.items}
        for sandbox in sandboxes.items:
            if sandbox.metadata.uid and sandbox.id:
                pods[sandbox.metadata.uid][sandbox.id] = RUNNING if sandbox.state == cri.SANDBOX_READY else EXITED
        for item in containers.containers:
            if item.id and (uid := owners.get(item.pod_sandbox_id) or item.labels.get(POD_UID_LABEL, "")):
                pods[uid][item.id] = _STATES.get(item.state, UNKNOWN)
        return dict(pods)

    async def inspect(self, uid: str) -> Inspection:
        """Return the full status of one pod."""
        try:
            return await self._inspect(uid)
        except RelistFailed as error:
            if _is_away(error.__cause__):
                raise
            raise InspectionFailed(f"{error} (pod {uid})") from error

    async def _inspect(self, uid: str) -> Inspection:
        stamp = time.time_ns()
        answers = [answer for id_ in await self._sandboxes(uid) if (answer := await self._sandbox(id_))]
        if not answers:
            return Inspection(uid, None, stamp, 0, None)
        runtime_ns = _stamp_of(answers)
        containers = _containers_of(answers) if runtime_ns else []
        stamped: bool | None = bool(runtime_ns)
        if not containers:
            containers = await self._containers(uid, answers)
            stamped = stamped and _agrees(runtime_ns, containers)
        status = pod_status(_newest(answers), [sandbox_status(item.status) for item in answers], containers, stamp)
        return Inspection(uid, status, stamp, runtime_ns if stamped else 0, stamped)

    async def _sandboxes(self, uid: str) -> list[str]:
        """Return the ids of a pod's sandboxes: by label, else (created without labels) from all."""
        chosen = cri.PodSandboxFilter(label_selector={POD_UID_LABEL: uid})
        for filter_ in (chosen, None):
            request = cri.ListPodSandboxRequest(filter=filter_)
            listed = await self._ask("ListPodSandbox", request, cri.ListPodSandboxResponse)
            if ids := [item.id for item in listed.items if item.id and item.metadata.uid == uid]:
                return ids
        return []

    async def _sandbox(self, id_: str) -> "cri.PodSandboxStatusResponse | None":
        """Return the sandbox's status; None if it is gone."""
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=id_)
        answer = await self._unless_gone("PodSandboxStatus", request, cri.PodSandboxStatusResponse)
        if answer is not None and answer.status.id != id_:
            raise RelistFailed(f"PodSandboxStatus: asked for {id_!r}, the runtime answered with {answer.status.id!r}")
        return answer

    async def _containers(self, uid: str, answers: "list[cri.PodSandboxStatusResponse]") -> list[ContainerStatus]:
        filters = [cri.ContainerFilter(pod_sandbox_id=answer.status.id) for answer in answers]
        filters.append(cri.ContainerFilter(label_selector={POD_UID_LABEL: uid}))
        listed: dict[str, str] = {}
        for filter_ in filters:
            request = cri.ListContainersRequest(filter=filter_)
            reply = await self._ask("ListContainers", request, cri.ListContainersResponse)
            listed |= {item.id: item.pod_sandbox_id for item in reply.containers if item.id}
        statuses = [await self._container(id_, sandbox) for id_, sandbox in listed.items()]
        return [status for status in statuses if status is not None]

    async def _container(self, id_: str, sandbox: str) -> ContainerStatus | None:
        request = cri.ContainerStatusRequest(container_id=id_)
        answer = await self._unless_gone("ContainerStatus", request, cri.ContainerStatusResponse)
        if answer is not None and answer.status.id != id_:
            raise RelistFailed(f"ContainerStatus: asked for {id_!r}, the runtime answered with {answer.status.id!r}")
        return container_status(answer.status, sandbox) if answer is not None else None

    async def _unless_gone(self, operation: str, request: Message, kind: type[M]) -> M | None:
        try:
            return await self._ask(operation, request, kind)
        except RelistFailed as error:
            if isinstance(error.__cause__, BusError) and error.__cause__.code == "NOT_FOUND":
                return None
            raise

    async def _ask(self, operation: str, request: Message, kind: type[M]) -> M:
        call = messages.CriCall(operation=operation, request=request.SerializeToString())
        try:
            reply = await self._bus.call(messages.OWNER, messages.CALL, call, messages.CriReply, timeout=CALL_TIMEOUT_S)
            return kind.FromString(reply.response)
        except BusError as error:
            raise RelistFailed(f"{operation}: {error.message}") from error
        except DecodeError as error:
            raise RelistFailed(f"{operation}: the runtime's answer is not CRI v1 ({error})") from error


def _is_away(cause: BaseException | None) -> bool:
    """Return True if nobody answered at all; an answer that is an error or malformed concerns one pod only."""
    silent = isinstance(cause, BusError) and messages.ANSWERED not in cause.details
    return silent or (isinstance(cause, BusError) and cause.code == "UNAVAILABLE")


def _newest(answers: "list[cri.PodSandboxStatusResponse]") -> "cri.PodSandboxMetadata":
    return max(answers, key=lambda answer: answer.status.created_at).status.metadata


def _stamp_of(answers: "list[cri.PodSandboxStatusResponse]") -> int:
    """Return the oldest of the runtime's timestamps; 0 if one of them is missing or not sane."""
    now = time.time_ns()
    return min(sane_stamp(answer.timestamp, now) for answer in answers)


def _agrees(runtime_ns: int, containers: list[ContainerStatus]) -> bool | None:
    """Check stamped answers without containers: True if there are none, None if all were created since."""
    if not containers:
        return True
    return None if all(item.created_ns > runtime_ns for item in containers) else False


def _containers_of(answers: "list[cri.PodSandboxStatusResponse]") -> list[ContainerStatus]:
    return [container_status(status, answer.status.id) for answer in answers for status in answer.containers_statuses]
