"""The pods of a plane as a program needs them: created, read, with their processes and logs."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from protocols.kube.jsons import read_json
from protocols.messages import cri
from protocols.messages.cri import CriCall, CriReply
from protocols.process import proc
from protocols.process.layout import Layout
from protocols.wire import cri_pb2
from supervisor.client.connection import Asking, ask
from supervisor.conform.async_api import AsyncApi, Object
from supervisor.testing.api import Api, ApiError

LONGEST_NAME = 50
IN_VAIN = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
"""Reasons of containers that wait for what does not come by itself."""


class ContainerEnd(NamedTuple):
    """The end of a container; `code` is that of a shell: 128 and the number of a signal."""

    code: int
    text: str


class ManifestPods(AsyncApi):
    """`where` is the node's layout."""

    def __init__(self, api: Api, where: Layout) -> None:
        super().__init__(api)
        self._where = where

    async def create(self, body: Object, name: str) -> Object:
        """Create a pod whose name begins so. Raises ApiError."""
        named = {**body["metadata"], "name": f"{name[:LONGEST_NAME]}-{uuid4().hex[:5]}"}
        path = f"/api/v1/namespaces/{named['namespace']}/pods"
        return await self.ask("POST", path, {**body, "metadata": named}, fieldValidation="Strict")

    async def read(self, path: str) -> Object:
        """Return the pod; {} if there is none. Raises ApiError, OSError."""
        try:
            return await self.ask("GET", path)
        except ApiError as error:
            if error.code != 404:
                raise
            return {}

    async def pids(self, pod: Object) -> list[int]:
        """Return the first process of each container that runs, by the runtime. Raises SupervisorError."""
        ids = [str(status.get("containerID", "")).rpartition("/")[2] for status in statuses(pod) if is_running(status)]
        return await asyncio.to_thread(ask, self._where, lambda asking: _pids(asking, ids))

    def logs(self, pod: Object) -> list[Path]:
        """Return the log files of its containers."""
        names = [str(pod["metadata"][field]) for field in ("namespace", "name", "uid")]
        return sorted((self._where.pod_logs / "_".join(names)).glob("*/*.log"))


async def _pids(asking: Asking, ids: Iterable[str]) -> list[int]:
    pids = []
    for id in ids:
        request = cri_pb2.ContainerStatusRequest(container_id=id, verbose=True).SerializeToString()
        reply = await asking.call(cri.OWNER, cri.CALL, CriCall("ContainerStatus", request), CriReply)
        info = cri_pb2.ContainerStatusResponse.FromString(reply.response).info
        pids.append(int(read_json(info["info"].encode())["pid"]))
    return pids


def path_of(pod: Object) -> str:
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def statuses(pod: Object) -> list[Object]:
    """Return the statuses of all containers, those that exist."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def is_running(status: Object) -> bool:
    """Return True if a container's status has a state `running`."""
    return bool((status.get("state") or {}).get("running"))


def ended(pod: Object) -> ContainerEnd | None:
    """Return the end of the first container that has ended; init containers are to succeed."""
    containers = {container["name"] for container in pod["spec"]["containers"]}
    for status in statuses(pod):
        state = (status.get("state") or {}).get("terminated")
        if state and (state.get("exitCode") or status["name"] in containers):
            return ContainerEnd(int(state.get("exitCode", 0)), " ".join(str(state.get("message", "")).split()))
    return None


def stuck(pod: Object) -> str:
    """Return why a container waits in vain; empty if none does."""
    for status in statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if str(waiting.get("reason", "")) in IN_VAIN:
            return f"container {status['name']}: {waiting['reason']}: {waiting.get('message', '')}"
    return ""


def family(pids: Iterable[int]) -> list[Path]:
    """Return the directories below /proc of these processes and of their descendants."""
    parents, members = {pid: proc.stat_number(pid, proc.PARENT) for pid in proc.pids()}, set(pids)
    while more := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= more
    return [Path("/proc", str(pid)) for pid in members]
