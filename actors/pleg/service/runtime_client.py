"""What can go wrong while the runtime is listed."""

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from google.protobuf.message import DecodeError, Message

from actors.pleg.state_machine.cri_status import POD_UID_LABEL, container_status, pod_status, sandbox_status, sane_stamp
from actors.pleg.state_machine.lifecycle_events import EXITED, RUNNING, UNKNOWN, States
from protocols.bus import Bus, BusError
from protocols.errors import NodeplaneError
from protocols.messages import cri as messages
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.wire import cri_pb2 as cri


class RelistFailed(NodeplaneError):
    """Raised when the runtime could not be listed or a pod not inspected; the next relist tries again."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "UNAVAILABLE"


class InspectionFailed(RelistFailed):
    """Raised when the runtime answered, but nothing that can be used, when asked of one pod; of others it may."""


CALL_S = 120.0
M = TypeVar("M", bound=Message)
_STATES = {cri.CONTAINER_RUNNING: RUNNING, cri.CONTAINER_EXITED: EXITED}


@dataclass(frozen=True)
class Inspection:
    uid: str
    status: PodStatus | None
    stamp: int
    """Our clock before the first call, ns."""
    told: int
    """The runtime's own stamp of its answers; 0 when there is none that can be one."""
    stamps: bool | None
    """Whether the runtime stamped its answers; None when there was no sandbox to see it on."""


class Runtime:
    """Every method raises RelistFailed when the runtime or cri is away or answers nonsense; `inspect` raises
    InspectionFailed in the second case."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def snapshot(self) -> dict[str, States]:
        """Id -> state of every sandbox and container, by pod uid."""
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
        """Everything the runtime holds of one pod."""
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
        told = _stamp_of(answers)
        containers = _stamped(answers) if told else []
        stamps: bool | None = bool(told)
        if not containers:
            containers = await self._containers(uid, answers)
            stamps = stamps and _agrees(told, containers)
        status = pod_status(_newest(answers), [sandbox_status(item.status) for item in answers], containers, stamp)
        return Inspection(uid, status, stamp, told if stamps else 0, stamps)

    async def _sandboxes(self, uid: str) -> list[str]:
        """By label, as upstream; a sandbox made without labels (by hand) is found among all."""
        chosen = cri.PodSandboxFilter(label_selector={POD_UID_LABEL: uid})
        for filter_ in (chosen, None):
            request = cri.ListPodSandboxRequest(filter=filter_)
            listed = await self._ask("ListPodSandbox", request, cri.ListPodSandboxResponse)
            if found := [item.id for item in listed.items if item.id and item.metadata.uid == uid]:
                return found
        return []

    async def _sandbox(self, id_: str) -> "cri.PodSandboxStatusResponse | None":
        """None when it is gone, also when the runtime answers with nothing or with another sandbox."""
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=id_)
        answer = await self._unless_gone("PodSandboxStatus", request, cri.PodSandboxStatusResponse)
        if answer is not None and answer.status.id != id_:
            raise RelistFailed(f"PodSandboxStatus: asked of {id_!r}, the runtime told of {answer.status.id!r}")
        return answer

    async def _containers(self, uid: str, answers: "list[cri.PodSandboxStatusResponse]") -> list[ContainerStatus]:
        filters = [cri.ContainerFilter(pod_sandbox_id=answer.status.id) for answer in answers]
        filters.append(cri.ContainerFilter(label_selector={POD_UID_LABEL: uid}))
        listed: dict[str, str] = {}
        for filter_ in filters:
            request = cri.ListContainersRequest(filter=filter_)
            reply = await self._ask("ListContainers", request, cri.ListContainersResponse)
            listed |= {item.id: item.pod_sandbox_id for item in reply.containers if item.id}
        found = [await self._container(id_, sandbox) for id_, sandbox in listed.items()]
        return [status for status in found if status is not None]

    async def _container(self, id_: str, sandbox: str) -> ContainerStatus | None:
        request = cri.ContainerStatusRequest(container_id=id_)
        answer = await self._unless_gone("ContainerStatus", request, cri.ContainerStatusResponse)
        if answer is not None and answer.status.id != id_:
            raise RelistFailed(f"ContainerStatus: asked of {id_!r}, the runtime told of {answer.status.id!r}")
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
            reply = await self._bus.call(messages.OWNER, messages.CALL, call, messages.CriReply, timeout=CALL_S)
            return kind.FromString(reply.response)
        except BusError as error:
            raise RelistFailed(f"{operation}: {error.message}") from error
        except DecodeError as error:
            raise RelistFailed(f"{operation}: the runtime's answer is not CRI v1 ({error})") from error


def _is_away(cause: BaseException | None) -> bool:
    """Nobody answered: no word on any pod. What the runtime refuses or garbles is of one."""
    silent = isinstance(cause, BusError) and messages.ANSWERED not in cause.details
    return silent or (isinstance(cause, BusError) and cause.code == "UNAVAILABLE")


def _newest(answers: "list[cri.PodSandboxStatusResponse]") -> "cri.PodSandboxMetadata":
    return max(answers, key=lambda answer: answer.status.created_at).status.metadata


def _stamp_of(answers: "list[cri.PodSandboxStatusResponse]") -> int:
    """The oldest of the runtime's stamps; 0 when one of them is missing or cannot be one in nanoseconds."""
    now = time.time_ns()
    return min(sane_stamp(answer.timestamp, now) for answer in answers)


def _agrees(told: int, containers: list[ContainerStatus]) -> bool | None:
    """Stamped answers named no container: true if there is none; None if they may have been made since."""
    if not containers:
        return True
    return None if all(item.created_ns > told for item in containers) else False


def _stamped(answers: "list[cri.PodSandboxStatusResponse]") -> list[ContainerStatus]:
    return [container_status(status, answer.status.id) for answer in answers for status in answer.containers_statuses]
