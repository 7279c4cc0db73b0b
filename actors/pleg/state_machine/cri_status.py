"""From CRI messages to one pod's status. Pure; the runtime's nonsense is corrected here, once."""

from collections.abc import Iterable

from protocols.messages.devices import DEVICES_ANNOTATION
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from protocols.wire import cri_pb2

POD_UID_LABEL = "io.kubernetes.pod.uid"
RESTARTS = "io.kubernetes.container.restartCount"
HASH = "io.kubernetes.container.hash"
MAX_DIGITS = 9
"""Of a restart count. Python raises for 5,000 digits, and the bus for what 64 bits do not hold."""
SANE_NS = 600 * 10**9
"""A runtime stamp further than this from our clock is taken for absent (seconds for nanoseconds, 0, a wrong clock)."""

_STATES = {
    cri_pb2.CONTAINER_CREATED: "created",
    cri_pb2.CONTAINER_RUNNING: "running",
    cri_pb2.CONTAINER_EXITED: "exited",
}


def sane_stamp(stamp_ns: int, now_ns: int) -> int:
    """The runtime's timestamp, never later than our clock; 0 when it cannot be one in nanoseconds."""
    return min(stamp_ns, now_ns) if abs(stamp_ns - now_ns) <= SANE_NS else 0


def sandbox_status(status: "cri_pb2.PodSandboxStatus") -> SandboxStatus:
    network = status.linux.namespaces.options.network
    return SandboxStatus(
        id=status.id,
        ready=status.state == cri_pb2.SANDBOX_READY,
        attempt=status.metadata.attempt,
        created_ns=status.created_at,
        ip=status.network.ip,
        host_network=status.HasField("linux") and network == cri_pb2.NODE,
    )


def container_status(status: "cri_pb2.ContainerStatus", sandbox_id: str) -> ContainerStatus:
    return ContainerStatus(
        id=status.id,
        sandbox_id=sandbox_id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        state=_STATES.get(status.state, "unknown"),
        created_ns=status.created_at,
        started_ns=status.started_at,
        finished_ns=status.finished_at,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        image=status.image.image,
        image_id=status.image_id or status.image_ref,
        restart_count=_count(status.annotations.get(RESTARTS, ""), status.metadata.attempt),
        spec_hash=status.annotations.get(HASH, ""),
        log_path=status.log_path,
        devices=status.annotations.get(DEVICES_ANNOTATION, ""),
    )


def _count(text: str, fallback: int) -> int:
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else fallback


def pod_status(
    metadata: "cri_pb2.PodSandboxMetadata",
    sandboxes: Iterable[SandboxStatus],
    containers: Iterable[ContainerStatus],
    timestamp_ns: int,
) -> PodStatus:
    """Newest first; the pod's IPs are those of the newest sandbox, if that is ready and not on the host's network."""
    ordered = tuple(sorted(sandboxes, key=lambda item: (-item.created_ns, item.id)))
    newest = ordered[0] if ordered else None
    ips = (newest.ip,) if newest and newest.ready and newest.ip and not newest.host_network else ()
    return PodStatus(
        uid=metadata.uid,
        name=metadata.name,
        namespace=metadata.namespace,
        ips=ips,
        sandboxes=ordered,
        containers=tuple(sorted(containers, key=lambda item: (-item.created_ns, item.id))),
        timestamp_ns=timestamp_ns,
    )
