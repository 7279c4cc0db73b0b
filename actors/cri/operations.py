"""Which CRI v1 methods are passed on, to which service, and how long each may take (upstream's runtime timeouts)."""

from dataclasses import dataclass

GENERAL_S = 120.0
RUNTIME, IMAGE = "RuntimeService", "ImageService"

_RUNTIME_METHODS = {
    "Version": "version",
    "Status": "status",
    "UpdateRuntimeConfig": "update_runtime_config",
    "RuntimeConfig": "runtime_config",
    "RunPodSandbox": "run_podsandbox",
    "StopPodSandbox": "stop_podsandbox",
    "RemovePodSandbox": "remove_podsandbox",
    "PodSandboxStatus": "podsandbox_status",
    "ListPodSandbox": "list_podsandbox",
    "CreateContainer": "create_container",
    "StartContainer": "start_container",
    "StopContainer": "stop_container",
    "RemoveContainer": "remove_container",
    "ListContainers": "list_containers",
    "ContainerStatus": "container_status",
    "UpdateContainerResources": "update_container",
    "UpdatePodSandboxResources": "update_podsandbox_resources",
    "ReopenContainerLog": "reopen_container_log",
    "ExecSync": "exec_sync",
    "Exec": "exec",
    "Attach": "attach",
    "PortForward": "port_forward",
    "ContainerStats": "container_stats",
    "ListContainerStats": "list_container_stats",
    "PodSandboxStats": "podsandbox_stats",
    "ListPodSandboxStats": "list_podsandbox_stats",
    "ListMetricDescriptors": "list_metric_descriptors",
    "ListPodSandboxMetrics": "list_podsandbox_metrics",
    "CheckpointContainer": "checkpoint_container",
}
_IMAGE_METHODS = {
    "ListImages": "list_images",
    "ImageStatus": "image_status",
    "PullImage": "pull_image",
    "RemoveImage": "remove_image",
    "ImageFsInfo": "image_fs_info",
}
_LONGER = {"RunPodSandbox": 2 * GENERAL_S, "StopContainer": 3600.0, "ExecSync": 3600.0, "PullImage": 600.0}
"""StopContainer and ExecSync carry their own time limit; the caller's deadline bounds them."""


@dataclass(frozen=True)
class Operation:
    path: str
    """Full gRPC method path."""
    metric: str
    """Value of the label operation_type."""
    limit_s: float


def _table(service: str, methods: dict[str, str]) -> dict[str, Operation]:
    return {
        name: Operation(f"/runtime.v1.{service}/{name}", metric, _LONGER.get(name, GENERAL_S))
        for name, metric in methods.items()
    }


OPERATIONS = _table(RUNTIME, _RUNTIME_METHODS) | _table(IMAGE, _IMAGE_METHODS)
STREAMED = {
    "ListPodSandbox": Operation(f"/runtime.v1.{RUNTIME}/StreamPodSandboxes", "list_podsandbox", GENERAL_S),
    "ListContainers": Operation(f"/runtime.v1.{RUNTIME}/StreamContainers", "list_containers", GENERAL_S),
}
"""The same lists in pieces (KEP-5825). A piece has the items where the whole answer has them, field 1: pieces one after
another are the whole answer's bytes, and the requests are the same as well."""
EVENTS_PATH = f"/runtime.v1.{RUNTIME}/GetContainerEvents"
EVENTS_METRIC = "get_container_events"
