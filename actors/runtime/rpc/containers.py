"""The container methods of RuntimeService."""

import json

from actors.runtime.backends.processes import ProcessDriver
from actors.runtime.model.cri_messages import container_item, container_status
from actors.runtime.model.errors import InvalidRequest
from actors.runtime.model.pods import Pods
from actors.runtime.operations.containers import Containers
from protocols.wire import cri_pb2 as pb


class ContainerMethods:
    def __init__(self, pods: Pods, containers: Containers, processes: ProcessDriver) -> None:
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
        found = self._pods.list_containers(wanted.id, wanted.pod_sandbox_id, state, wanted.label_selector)
        return pb.ListContainersResponse(containers=[container_item(container) for container in found])

    async def ContainerStatus(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        container = self._pods.container(request.container_id)
        details = {
            "sandboxID": container.sandbox.id,
            "hollow": container.hollow is not None,
            "shimPid": self._processes.shim_pid(container),
        }
        info = {"info": json.dumps(details)} if request.verbose else {}
        return pb.ContainerStatusResponse(status=container_status(container), info=info)

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
        done = await self._containers.execute(request.container_id, list(request.cmd), request.timeout)
        return pb.ExecSyncResponse(stdout=done.stdout, stderr=done.stderr, exit_code=done.exit_code)
