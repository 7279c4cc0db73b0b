"""Version, status and configuration of the runtime."""

import json

from actors.runtime.cgroups.hierarchy import Cgroups
from actors.runtime.model.pods import Pods
from protocols.wire import cri_pb2 as pb

KUBELET_API_VERSION = "0.1.0"
NAME = "nodeplane"
VERSION = "0.1.0"
API_VERSION = "v1"


class Info:
    def __init__(self, pods: Pods, cgroups: Cgroups) -> None:
        self._pods = pods
        self._cgroups = cgroups

    async def Version(self, request: pb.VersionRequest) -> pb.VersionResponse:
        return pb.VersionResponse(
            version=KUBELET_API_VERSION, runtime_name=NAME, runtime_version=VERSION, runtime_api_version=API_VERSION
        )

    async def Status(self, request: pb.StatusRequest) -> pb.StatusResponse:
        counts: dict[str, object] = {
            "sandboxes": len(self._pods.sandboxes),
            "containers": len(self._pods.containers),
            "resources": self._cgroups.describe(),
        }
        return pb.StatusResponse(
            status=pb.RuntimeStatus(
                conditions=[
                    pb.RuntimeCondition(type="RuntimeReady", status=True),
                    pb.RuntimeCondition(type="NetworkReady", status=True),
                ]
            ),
            info={"info": json.dumps(counts)} if request.verbose else {},
            runtime_handlers=[pb.RuntimeHandler(name="", features=pb.RuntimeHandlerFeatures())],
        )

    async def RuntimeConfig(self, request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    async def UpdateRuntimeConfig(self, request: pb.UpdateRuntimeConfigRequest) -> pb.UpdateRuntimeConfigResponse:
        """A pod CIDR changes nothing where pods share the host's network."""
        return pb.UpdateRuntimeConfigResponse()
