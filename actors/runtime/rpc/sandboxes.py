"""The sandbox methods of RuntimeService."""

import json

from actors.runtime.model.clock import Clock
from actors.runtime.model.cri_messages import container_statuses, sandbox_item, sandbox_status
from actors.runtime.model.pods import Pods
from actors.runtime.operations.sandboxes import Sandboxes
from protocols.wire import cri_pb2 as pb


class SandboxMethods:
    def __init__(self, pods: Pods, sandboxes: Sandboxes, clock: Clock) -> None:
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
        """Stamp first, then the statuses, with no step of the loop between."""
        sandbox = self._pods.sandbox(request.pod_sandbox_id)
        return pb.PodSandboxStatusResponse(
            timestamp=self._clock.next(),
            status=sandbox_status(sandbox),
            containers_statuses=container_statuses(sandbox),
            info={"info": json.dumps({"runtime": "nodeplane"})} if request.verbose else {},
        )

    async def ListPodSandbox(self, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
        wanted = request.filter
        state = wanted.state.state if wanted.HasField("state") else None
        found = self._pods.list_sandboxes(wanted.id, state, wanted.label_selector)
        return pb.ListPodSandboxResponse(items=[sandbox_item(sandbox) for sandbox in found])

    async def UpdatePodSandboxResources(
        self, request: pb.UpdatePodSandboxResourcesRequest
    ) -> pb.UpdatePodSandboxResourcesResponse:
        """Accepted, and enforced by nothing: limits are of containers."""
        self._pods.sandbox(request.pod_sandbox_id)
        return pb.UpdatePodSandboxResourcesResponse()
