"""Client of the container runtime: CRI calls by way of the actor `cri`, each with a deadline."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from actors.podworker.model.dependencies import ImageFound, ImagePull
from protocols.bus import Bus, Internal
from protocols.lifecycle.pods.runtime_status import network_ips
from protocols.messages import cri as messages
from protocols.messages.runtime import VOLUME_ANNOTATION
from protocols.wire import cri_pb2

Reply = TypeVar("Reply", bound=Message)
QUICK_S, CREATE_S, SANDBOX_S, PULL_S = 15.0, 120.0, 240.0, 3600.0
"""A sandbox has upstream's time, since network plugins may be slow. Upstream does not limit pulls; runtimes end those
that make no progress."""
STOP_MARGIN_S = 30.0
EXEC_MARGIN_S = 5.0
MINIMAL_STOP_S = 2
"""Lower bound of StopContainer's timeout, however short the grace period."""


async def call_runtime(
    bus: Bus, operation: str, request: Message, reply: type[Reply], timeout: float, idempotent: bool = False
) -> Reply:
    """Make one CRI call. Raises BusError, for an answer that does not decode, too."""
    call = messages.CriCall(operation=operation, request=request.SerializeToString())
    answer = await bus.call(
        messages.OWNER, messages.CALL, call, messages.CriReply, timeout=timeout, idempotent=idempotent
    )
    try:
        return reply.FromString(answer.response)
    except DecodeError as error:
        raise Internal(f"the runtime's answer to {operation} does not decode: {error}") from None


class BusRuntime:
    """Implements dependencies.Runtime. Calls that may be repeated without harm are marked idempotent."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def run_sandbox(self, config: "cri_pb2.PodSandboxConfig", handler: str) -> str:
        request = cri_pb2.RunPodSandboxRequest(config=config, runtime_handler=handler)
        reply = await self._call("RunPodSandbox", request, cri_pb2.RunPodSandboxResponse, SANDBOX_S)
        return str(reply.pod_sandbox_id)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        request = cri_pb2.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._call("StopPodSandbox", request, cri_pb2.StopPodSandboxResponse, CREATE_S, True)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        request = cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._call("RemovePodSandbox", request, cri_pb2.RemovePodSandboxResponse, CREATE_S, True)

    async def sandbox_ips(self, sandbox_id: str) -> tuple[str, ...]:
        request = cri_pb2.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)
        reply = await self._call("PodSandboxStatus", request, cri_pb2.PodSandboxStatusResponse, QUICK_S, True)
        return network_ips(reply.status.network)

    async def create_container(
        self, sandbox_id: str, config: "cri_pb2.ContainerConfig", sandbox: "cri_pb2.PodSandboxConfig"
    ) -> str:
        request = cri_pb2.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox)
        reply = await self._call("CreateContainer", request, cri_pb2.CreateContainerResponse, CREATE_S)
        return str(reply.container_id)

    async def start_container(self, container_id: str) -> None:
        request = cri_pb2.StartContainerRequest(container_id=container_id)
        await self._call("StartContainer", request, cri_pb2.StartContainerResponse, CREATE_S)

    async def stop_container(self, container_id: str, grace: int) -> None:
        seconds = max(MINIMAL_STOP_S, grace)
        request = cri_pb2.StopContainerRequest(container_id=container_id, timeout=seconds)
        await self._call("StopContainer", request, cri_pb2.StopContainerResponse, seconds + STOP_MARGIN_S, True)

    async def exec_sync(self, container_id: str, command: list[str], timeout: int) -> tuple[int, bytes]:
        request = cri_pb2.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout)
        reply = await self._call("ExecSync", request, cri_pb2.ExecSyncResponse, timeout + EXEC_MARGIN_S)
        return reply.exit_code, reply.stdout + reply.stderr

    async def reopen_log(self, container_id: str) -> None:
        request = cri_pb2.ReopenContainerLogRequest(container_id=container_id)
        await self._call("ReopenContainerLog", request, cri_pb2.ReopenContainerLogResponse, QUICK_S, True)

    async def remove_container(self, container_id: str) -> None:
        request = cri_pb2.RemoveContainerRequest(container_id=container_id)
        await self._call("RemoveContainer", request, cri_pb2.RemoveContainerResponse, CREATE_S, True)

    async def set_cpus(self, container_id: str, cpus: str) -> None:
        resources = cri_pb2.LinuxContainerResources(cpuset_cpus=cpus)
        request = cri_pb2.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
        await self._call("UpdateContainerResources", request, cri_pb2.UpdateContainerResourcesResponse, QUICK_S, True)

    async def resize(self, container_id: str, resources: "cri_pb2.LinuxContainerResources") -> None:
        request = cri_pb2.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
        await self._call("UpdateContainerResources", request, cri_pb2.UpdateContainerResourcesResponse, QUICK_S, True)

    async def image(self, name: str, volume: bool = False) -> ImageFound | None:
        request = cri_pb2.ImageStatusRequest(image=_image(name, volume))
        reply = await self._call("ImageStatus", request, cri_pb2.ImageStatusResponse, QUICK_S, True)
        cri_image = reply.image
        return (
            ImageFound(cri_image.id, cri_image.uid.value, cri_image.username, cri_image.size)
            if reply.HasField("image") and cri_image.id
            else None
        )

    async def pull_image(self, pull: ImagePull, auth: "cri_pb2.AuthConfig | None" = None) -> str:
        request = cri_pb2.PullImageRequest(
            image=_image(pull.image, pull.volume), auth=auth, sandbox_config=pull.sandbox
        )
        reply = await self._call("PullImage", request, cri_pb2.PullImageResponse, PULL_S)
        return str(reply.image_ref)

    async def images(self) -> "cri_pb2.ListImagesResponse":
        return await self._call("ListImages", cri_pb2.ListImagesRequest(), cri_pb2.ListImagesResponse, QUICK_S, True)

    async def recursive_read_only(self, handler: str) -> bool:
        reply = await self._call("Status", cri_pb2.StatusRequest(), cri_pb2.StatusResponse, QUICK_S, True)
        return any(h.features.recursive_read_only_mounts for h in reply.runtime_handlers if h.name == handler)

    async def stats(self) -> "cri_pb2.ListContainerStatsResponse":
        request = cri_pb2.ListContainerStatsRequest()
        return await self._call("ListContainerStats", request, cri_pb2.ListContainerStatsResponse, QUICK_S, True)

    async def memory_used(self, container_id: str) -> int:
        request = cri_pb2.ContainerStatsRequest(container_id=container_id)
        reply = await self._call("ContainerStats", request, cri_pb2.ContainerStatsResponse, QUICK_S, True)
        memory = reply.stats.memory
        return memory.usage_bytes.value or memory.working_set_bytes.value

    async def live_pods(self) -> tuple[list[tuple[str, str, str]], set[str]]:
        """Return uid, namespace and name of every pod that has a sandbox in the runtime, and the uids of ready ones."""
        request = cri_pb2.ListPodSandboxRequest()
        reply = await self._call("ListPodSandbox", request, cri_pb2.ListPodSandboxResponse, QUICK_S, True)
        ready = {item.metadata.uid for item in reply.items if item.state == cri_pb2.SANDBOX_READY}
        all_metadata = (item.metadata for item in reply.items)
        return [(metadata.uid, metadata.namespace, metadata.name) for metadata in all_metadata if metadata.uid], ready

    async def _call(
        self, operation: str, request: Message, reply: type[Reply], timeout: float, idempotent: bool = False
    ) -> Reply:
        return await call_runtime(self._bus, operation, request, reply, timeout, idempotent)


def _image(name: str, volume: bool) -> "cri_pb2.ImageSpec":
    return cri_pb2.ImageSpec(image=name, annotations={VOLUME_ANNOTATION: "true"} if volume else {})
