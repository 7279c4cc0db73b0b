"""Convert CRI messages to the status of one pod. Pure; malformed values of runtimes are corrected here, once."""

from collections.abc import Iterable

from protocols.lifecycle.pods.runtime_status import network_ips
from protocols.lifecycle.pods.stop_signals import signal_name
from protocols.messages.devices import DEVICES_ANNOTATION
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from protocols.wire import cri_pb2

POD_UID_LABEL = "io.kubernetes.pod.uid"
RESTARTS = "io.kubernetes.container.restartCount"
HASH = "io.kubernetes.container.hash"
MAX_DIGITS = 9
"""Longest restart count accepted: int() raises for 5,000 digits, and the bus carries 64 bits only."""
MAX_GROUPS = 1000
MAX_ID = 2**31 - 1
"""Highest id of a user or group that the API takes."""
SANE_NS = 600 * 10**9
"""A runtime timestamp further than this from our clock counts as absent (0, seconds for nanoseconds, a wrong clock)."""

_STATES = {
    cri_pb2.CONTAINER_CREATED: "created",
    cri_pb2.CONTAINER_RUNNING: "running",
    cri_pb2.CONTAINER_EXITED: "exited",
}


def sane_stamp(stamp_ns: int, now_ns: int) -> int:
    """Return the runtime's timestamp, capped to our clock; 0 if it cannot be a time in nanoseconds."""
    return min(stamp_ns, now_ns) if abs(stamp_ns - now_ns) <= SANE_NS else 0


def sandbox_status(status: "cri_pb2.PodSandboxStatus") -> SandboxStatus:
    """Convert a sandbox's status; one without `linux` counts as having a network of its own."""
    network = status.linux.namespaces.options.network
    ips = (*network_ips(status.network), "", "")
    return SandboxStatus(
        id=status.id,
        ready=status.state == cri_pb2.SANDBOX_READY,
        attempt=status.metadata.attempt,
        created_ns=status.created_at,
        ip=ips[0],
        host_network=status.HasField("linux") and network == cri_pb2.NODE,
        second_ip=ips[1],
    )


def container_status(status: "cri_pb2.ContainerStatus", sandbox_id: str) -> ContainerStatus:
    """Convert a container's status; an unknown state is `unknown`, a missing restart count the attempt."""
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
        user=_user(status.user.linux) if status.user.HasField("linux") else (),
        stop_signal=signal_name(status.stop_signal),
    )


def _user(user: "cri_pb2.LinuxContainerUser") -> tuple[int, ...]:
    """Return the ids; none if the API takes one of them for no id."""
    ids = (user.uid, user.gid, *user.supplemental_groups[:MAX_GROUPS])
    return ids if all(0 <= id <= MAX_ID for id in ids) else ()


def _count(text: str, fallback: int) -> int:
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else fallback


def pod_status(
    metadata: "cri_pb2.PodSandboxMetadata",
    sandboxes: Iterable[SandboxStatus],
    containers: Iterable[ContainerStatus],
    timestamp_ns: int,
) -> PodStatus:
    """Return the pod's status, sandboxes and containers newest first, by their attempts: a clock may go back.

    The pod's IPs are those of its newest sandbox if that is ready and not on the host's network.
    """
    ordered = tuple(sorted(sandboxes, key=_age))
    newest = ordered[0] if ordered else None
    return PodStatus(
        uid=metadata.uid,
        name=metadata.name,
        namespace=metadata.namespace,
        ips=newest.ips if newest and newest.ready and not newest.host_network else (),
        sandboxes=ordered,
        containers=tuple(sorted(containers, key=_age)),
        timestamp_ns=timestamp_ns,
    )


def _age(item: SandboxStatus | ContainerStatus) -> tuple[int, int, str]:
    return -item.attempt, -item.created_ns, item.id
