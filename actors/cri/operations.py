"""CRI v1 methods that are passed on: gRPC path, time limit (upstream's runtime timeouts) and metrics of each."""

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from protocols.actor.metrics import PlainCounter
from protocols.errors import NodeplaneError
from protocols.process.families import CounterFamily, HistogramFamily


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
_LONGER = {"RunPodSandbox": 2 * GENERAL_S, "StopContainer": 3600.0, "ExecSync": 3600.0, "PullImage": 3600.0}
"""StopContainer and ExecSync have a time limit in the request, and the caller's deadline."""


class Operation(msgspec.Struct, frozen=True):
    """A method that may be called through cri."""

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
KIND = ("operation_type",)
OPERATIONS_TOTAL = CounterFamily("kubelet_runtime_operations_total", "Calls of the runtime, by operation.", KIND)
ERRORS = CounterFamily("kubelet_runtime_operations_errors_total", "Calls of the runtime that failed.", KIND)
DURATIONS = HistogramFamily(
    "kubelet_runtime_operations_duration_seconds", "Seconds that calls of the runtime took.", KIND
)
CONNECTION_ERRORS = CounterFamily(
    "kubelet_evented_pleg_connection_error_count", "Failures to open or to read the runtime's event stream."
)
CONNECTIONS = CounterFamily(
    "kubelet_evented_pleg_connection_success_count", "Event streams of the runtime that were opened."
)


class _CriMetrics(msgspec.Struct, frozen=True):
    operations: Counter
    errors: Counter
    durations: Histogram
    connection_errors: PlainCounter
    connection_success: PlainCounter


def cri_metrics(registry: CollectorRegistry, gate: bool) -> _CriMetrics:
    """Register kubelet_runtime_operations_* and the two counters of the event stream's connection."""
    events = registry if gate else None
    return _CriMetrics(
        operations=Counter(*OPERATIONS_TOTAL, registry=registry),
        errors=Counter(*ERRORS, registry=registry),
        durations=Histogram(*DURATIONS, buckets=BUCKETS, registry=registry),
        connection_errors=PlainCounter(*CONNECTION_ERRORS, events),
        connection_success=PlainCounter(*CONNECTIONS, events),
    )
