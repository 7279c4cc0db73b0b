"""CRI v1 methods that are passed on: gRPC path, time limit (upstream's runtime timeouts) and metrics of each."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from protocols.actor.metrics import PlainCounter
from protocols.errors import NodeplaneError


class OperationUnknown(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised for a method that CRI v1 does not have or that this actor does not pass on."""


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
"""StopContainer and ExecSync have a time limit in the request, and the caller's deadline."""


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
"""The same lists in pieces (KEP-5825). A piece has its items in the same field as the whole answer, so that pieces
concatenated are the bytes of the whole answer; the requests are the same too."""
EVENTS_PATH = f"/runtime.v1.{RUNTIME}/GetContainerEvents"
EVENTS_METRIC = "get_container_events"


BUCKETS = tuple(0.005 * 2.5**i for i in range(14))


@dataclass(frozen=True)
class CriMetrics:
    operations: Counter
    errors: Counter
    durations: Histogram
    connection_errors: PlainCounter
    connection_success: PlainCounter


def cri_metrics(registry: CollectorRegistry, gate: bool) -> CriMetrics:
    """Register kubelet_runtime_operations_* and the two counters of the event stream's connection."""
    kind = ["operation_type"]
    return CriMetrics(
        operations=Counter("kubelet_runtime_operations", "Runtime operations.", kind, registry=registry),
        errors=Counter("kubelet_runtime_operations_errors", "Failed runtime operations.", kind, registry=registry),
        durations=Histogram(
            "kubelet_runtime_operations_duration_seconds",
            "Duration of runtime operations.",
            kind,
            buckets=BUCKETS,
            registry=registry,
        ),
        connection_errors=PlainCounter(
            "kubelet_evented_pleg_connection_error_count",
            "Failures to open or to read the event stream.",
            registry=registry if gate else None,
        ),
        connection_success=PlainCounter(
            "kubelet_evented_pleg_connection_success_count",
            "Event streams opened.",
            registry=registry if gate else None,
        ),
    )
