"""Methods of the CRI RuntimeService: version and status, sandboxes, containers, events."""

import json
from collections.abc import AsyncGenerator

from google.protobuf.message import Message

from actors.runtime.backends.process_backend import ProcessBackend
from actors.runtime.cgroups.hierarchy import Cgroups
from actors.runtime.model.containers import Container, Sandbox
from actors.runtime.model.cri_messages import (
    container_item,
    container_status,
    container_statuses,
    sandbox_item,
    sandbox_status,
)
from actors.runtime.model.errors import InvalidRequest
from actors.runtime.model.pods import Clock, RuntimePods
from actors.runtime.operations.containers import Containers
from actors.runtime.operations.sandboxes import Sandboxes
from actors.runtime.spec.isolation import recursive_read_only
from actors.runtime.spec.oci import runtime_spec
from actors.runtime.state.container_events import ContainerEvents, Subscription
from protocols.version import installed_version
from protocols.wire import cri_pb2 as pb
from protocols.wire.event_numbers import number_field

KUBELET_API_VERSION = "0.1.0"
NAME = "nodeplane"
API_VERSION = "v1"


class InfoMethods:
    """Version, Status and their like, by CRI's names."""

    def __init__(self, pods: RuntimePods, cgroups: Cgroups, events: ContainerEvents) -> None:
        self._pods = pods
        self._cgroups = cgroups
        self._events = events
        self._version = installed_version()

    async def Version(self, request: pb.VersionRequest) -> pb.VersionResponse:
        return pb.VersionResponse(
            version=KUBELET_API_VERSION,
            runtime_name=NAME,
            runtime_version=self._version,
            runtime_api_version=API_VERSION,
        )

    async def Status(self, request: pb.StatusRequest) -> pb.StatusResponse:
        counts: dict[str, object] = {
            "sandboxes": len(self._pods.sandboxes),
            "containers": len(self._pods.containers),
            "resources": self._cgroups.describe(),
        }
        features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=recursive_read_only())
        answer = pb.StatusResponse(
            status=pb.RuntimeStatus(
                conditions=[
                    pb.RuntimeCondition(type="RuntimeReady", status=True),
                    pb.RuntimeCondition(type="NetworkReady", status=True),
                ]
            ),
            info={"info": json.dumps(counts)} if request.verbose else {},
            runtime_handlers=[pb.RuntimeHandler(name="", features=features)],
            features=pb.RuntimeFeatures(supplemental_groups_policy=True),
        )
        answer.MergeFromString(number_field(self._events.newest))
        return answer

    async def RuntimeConfig(self, request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    async def UpdateRuntimeConfig(self, request: pb.UpdateRuntimeConfigRequest) -> pb.UpdateRuntimeConfigResponse:
        """Ignore the pod CIDR: pods share the host's network."""
        return pb.UpdateRuntimeConfigResponse()


class SandboxMethods:
    """Methods of sandboxes by CRI's names."""

    def __init__(self, pods: RuntimePods, sandboxes: Sandboxes, clock: Clock) -> None:
        self._pods = pods
        self._sandboxes = sandboxes
        self._clock = clock

    async def RunPodSandbox(self, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
        return pb.RunPodSandboxResponse(
            pod_sandbox_id=await self._sandboxes.run(request.config, request.runtime_handler)
        )

    async def StopPodSandbox(self, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        await self._sandboxes.stop(request.pod_sandbox_id)
        return pb.StopPodSandboxResponse()

    async def RemovePodSandbox(self, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
        await self._sandboxes.remove(request.pod_sandbox_id)
        return pb.RemovePodSandboxResponse()

    async def PodSandboxStatus(self, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
        """Return timestamp and statuses of one moment: both are read in one step of the loop."""
        sandbox = self._pods.sandbox(request.pod_sandbox_id)
        return pb.PodSandboxStatusResponse(
            timestamp=self._clock.next(),
            status=sandbox_status(sandbox),
            containers_statuses=container_statuses(sandbox),
            info={"info": json.dumps(_sandbox_details(sandbox))} if request.verbose else {},
        )

    async def ListPodSandbox(self, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
        wanted = request.filter
        state = wanted.state.state if wanted.HasField("state") else None
        sandboxes = self._pods.list_sandboxes(wanted.id, state, wanted.label_selector)
        return pb.ListPodSandboxResponse(items=[sandbox_item(sandbox) for sandbox in sandboxes])

    async def UpdatePodSandboxResources(
        self, request: pb.UpdatePodSandboxResourcesRequest
    ) -> pb.UpdatePodSandboxResourcesResponse:
        await self._sandboxes.update(request.pod_sandbox_id, request.resources)
        return pb.UpdatePodSandboxResourcesResponse()


def _sandbox_details(sandbox: Sandbox) -> dict[str, object]:
    """Return verbose details under containerd's names. Most sandboxes have no process, and the pid 0."""
    holder = sandbox.record.holder
    return {
        "pid": holder.pid if holder and sandbox.ready else 0,
        "runtimeType": NAME,
        "runtimeHandler": sandbox.record.handler,
        "config": _as_json(sandbox.config),
    }


def _as_json(message: Message) -> dict[str, object]:
    from google.protobuf import json_format  # only for people who inspect

    return dict(json_format.MessageToDict(message, preserving_proto_field_name=True))


class ContainerMethods:
    """Methods of containers by CRI's names."""

    def __init__(self, pods: RuntimePods, containers: Containers, processes: ProcessBackend) -> None:
        self._pods = pods
        self._containers = containers
        self._processes = processes

    async def CreateContainer(self, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
        id = await self._containers.create(request.pod_sandbox_id, request.config)
        return pb.CreateContainerResponse(container_id=id)

    async def StartContainer(self, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
        await self._containers.start(request.container_id)
        return pb.StartContainerResponse()

    async def StopContainer(self, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        await self._containers.stop(request.container_id, request.timeout)
        return pb.StopContainerResponse()

    async def RemoveContainer(self, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
        await self._containers.remove(request.container_id)
        return pb.RemoveContainerResponse()

    async def ListContainers(self, request: pb.ListContainersRequest) -> pb.ListContainersResponse:
        wanted = request.filter
        state = wanted.state.state if wanted.HasField("state") else None
        containers = self._pods.list_containers(wanted.id, wanted.pod_sandbox_id, state, wanted.label_selector)
        return pb.ListContainersResponse(containers=[container_item(container) for container in containers])

    async def ContainerStatus(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        container = self._pods.container(request.container_id)
        info = {"info": json.dumps(self._details(container))} if request.verbose else {}
        return pb.ContainerStatusResponse(status=container_status(container), info=info)

    def _details(self, container: Container) -> dict[str, object]:
        """Return verbose details under containerd's names, and our own."""
        return {
            "sandboxID": container.sandbox.id,
            "pid": self._processes.main_pid(container),
            "removing": container.removing,
            "runtimeType": NAME,
            "runtimeSpec": runtime_spec(self._processes.spec_file(container)),
            "config": _as_json(container.config),
            "hollow": container.hollow is not None,
            "shimPid": self._processes.shim_pid(container),
        }

    async def UpdateContainerResources(
        self, request: pb.UpdateContainerResourcesRequest
    ) -> pb.UpdateContainerResourcesResponse:
        await self._containers.update(request.container_id, request.linux)
        return pb.UpdateContainerResourcesResponse()

    async def ReopenContainerLog(self, request: pb.ReopenContainerLogRequest) -> pb.ReopenContainerLogResponse:
        await self._containers.reopen_log(request.container_id)
        return pb.ReopenContainerLogResponse()

    async def ExecSync(self, request: pb.ExecSyncRequest) -> pb.ExecSyncResponse:
        if request.timeout < 0:
            raise InvalidRequest("timeout must not be negative")
        done = await self._containers.exec_sync(request.container_id, list(request.cmd), request.timeout)
        return pb.ExecSyncResponse(stdout=done.stdout, stderr=done.stderr, exit_code=done.exit_code)


class EventMethods:
    """GetContainerEvents."""

    def __init__(self, events: ContainerEvents) -> None:
        self._events = events

    def GetContainerEvents(self, request: pb.GetEventsRequest) -> AsyncGenerator[bytes, None]:
        """Subscribe at once, before the client sees the stream as open."""
        subscription = self._events.subscribe()
        return self._follow(subscription)

    async def _follow(self, subscription: Subscription) -> AsyncGenerator[bytes, None]:
        try:
            async for event in subscription.events():
                yield event
        finally:
            self._events.unsubscribe(subscription)
