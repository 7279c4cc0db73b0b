"""Asks the runtime, through the cri actor, what it holds. Two calls list everything; a pod's inspection is apart."""

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from actors.pleg.build import POD_UID_LABEL, container_status, pod_status, sandbox_status
from actors.pleg.diff import EXITED, RUNNING, UNKNOWN, States
from actors.pleg.errors import RelistFailed
from protocols.bus import Bus, BusError
from protocols.messages import cri as messages
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.wire import cri_pb2 as cri

CALL_S = 120.0
M = TypeVar("M", bound=Message)
_STATES = {cri.CONTAINER_RUNNING: RUNNING, cri.CONTAINER_EXITED: EXITED}


@dataclass(frozen=True)
class Inspection:
    uid: str
    status: PodStatus | None
    stamp: int
    """Our clock before the first call, ns."""
    stamps: bool | None
    """Whether the runtime stamped its answers; None when there was no sandbox to see it on."""


class Runtime:
    """Every method raises RelistFailed when the runtime or cri is away or answers nonsense."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def snapshot(self) -> dict[str, States]:
        """Id -> state of every sandbox and container, by pod uid."""
        sandboxes = await self._ask("ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse)
        containers = await self._ask("ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse)
        pods: dict[str, dict[str, str]] = defaultdict(dict)
        for sandbox in sandboxes.items:
            if sandbox.metadata.uid:
                pods[sandbox.metadata.uid][sandbox.id] = RUNNING if sandbox.state == cri.SANDBOX_READY else EXITED
        for item in containers.containers:
            if uid := item.labels.get(POD_UID_LABEL, ""):
                pods[uid][item.id] = _STATES.get(item.state, UNKNOWN)
        return dict(pods)

    async def inspect(self, uid: str) -> Inspection:
        """Everything the runtime holds of one pod."""
        stamp = time.time_ns()
        listed = await self._ask("ListPodSandbox", _sandboxes_of(uid), cri.ListPodSandboxResponse)
        answers = [answer for item in listed.items if (answer := await self._sandbox(item.id))]
        if not answers:
            return Inspection(uid, None, stamp, None)
        stamps = all(answer.timestamp for answer in answers)
        containers = _stamped(answers) if stamps else []
        if not containers:
            containers = await self._containers(uid)
            stamps = stamps and not containers
        sandboxes = [sandbox_status(answer.status) for answer in answers]
        newest = max(answers, key=lambda answer: answer.status.created_at)
        return Inspection(uid, pod_status(newest.status.metadata, sandboxes, containers, stamp), stamp, stamps)

    async def _sandbox(self, id_: str) -> "cri.PodSandboxStatusResponse | None":
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=id_)
        return await self._unless_gone("PodSandboxStatus", request, cri.PodSandboxStatusResponse)

    async def _containers(self, uid: str) -> list[ContainerStatus]:
        request = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector={POD_UID_LABEL: uid}))
        listed = await self._ask("ListContainers", request, cri.ListContainersResponse)
        found: list[ContainerStatus] = []
        for item in listed.containers:
            question = cri.ContainerStatusRequest(container_id=item.id)
            answer = await self._unless_gone("ContainerStatus", question, cri.ContainerStatusResponse)
            if answer is not None:
                found.append(container_status(answer.status, item.pod_sandbox_id))
        return found

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
            reply = await self._bus.call(
                messages.OWNER, messages.CALL, call, messages.CriReply, timeout=CALL_S, idempotent=True
            )
            return kind.FromString(reply.response)
        except BusError as error:
            raise RelistFailed(f"{operation}: {error.message}") from error
        except DecodeError as error:
            raise RelistFailed(f"{operation}: the runtime's answer is not CRI v1 ({error})") from error


def _sandboxes_of(uid: str) -> "cri.ListPodSandboxRequest":
    return cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector={POD_UID_LABEL: uid}))


def _stamped(answers: "list[cri.PodSandboxStatusResponse]") -> list[ContainerStatus]:
    return [container_status(status, answer.status.id) for answer in answers for status in answer.containers_statuses]
