"""Lookups in the runtime status of a pod. Pure."""

import ipaddress
from collections.abc import Collection, Iterable, Mapping

import msgspec

from protocols.lifecycle.pods.types import StartFailure
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from protocols.wire import cri_pb2

START_ERROR, START_ERROR_CODE = "StartError", 128
RUNNING, EXITED, CREATED, UNKNOWN = "running", "exited", "created", "unknown"
MAX_IPS = 16


def network_ips(network: "cri_pb2.PodSandboxNetworkStatus") -> tuple[str, ...]:
    """Return the first address, and the first of the other family; none if one is invalid, as kubelet does."""
    texts = [text for text in (network.ip, *(item.ip for item in network.additional_ips[:MAX_IPS])) if text]
    try:
        families = {ipaddress.ip_address(text).version: text for text in reversed(texts)}
    except ValueError:
        return ()
    return tuple(sorted(families.values(), key=texts.index))


def ordered_ips(ips: Iterable[str], host_ip: str) -> tuple[str, ...]:
    """Return a pod's addresses, that of the node's family first."""
    return tuple(sorted(ips, key=lambda ip: (":" in ip) != (":" in host_ip)))


def by_name(status: PodStatus) -> dict[str, list[ContainerStatus]]:
    """All attempts of each container name, newest first."""
    attempts: dict[str, list[ContainerStatus]] = {}
    for container in status.containers:
        attempts.setdefault(container.name, []).append(container)
    return attempts


def current_sandbox(status: PodStatus) -> SandboxStatus | None:
    """Return the sandbox containers may start in: the newest, if it alone is ready."""
    newest = status.sandboxes[0] if status.sandboxes else None
    if newest is None or not newest.ready or any(s.ready for s in status.sandboxes[1:]):
        return None
    return newest


def occupies(status: PodStatus | None) -> bool:
    """Return True if the pod has a ready sandbox or a live container."""
    return status is not None and (any(sandbox.ready for sandbox in status.sandboxes) or bool(live(status)))


def live(status: PodStatus) -> list[ContainerStatus]:
    """Return containers that run, or may run as far as the runtime knows."""
    return [c for c in status.containers if c.state in (RUNNING, UNKNOWN)]


def shows_runs(sandbox_id: str, runs: Collection[tuple[str, int]], status: PodStatus) -> bool:
    """Return True if these attempts of containers, by name, were started in the sandbox."""
    began = {
        (c.name, c.attempt) for c in status.containers if c.sandbox_id == sandbox_id and c.state in (RUNNING, EXITED)
    }
    return began.issuperset(runs)


def shows_exit(container_id: str, status: PodStatus) -> bool:
    """Return True if the container has exited or is removed."""
    return all(c.state == EXITED for c in status.containers if c.id == container_id)


def shows_stopped(sandbox_ids: Collection[str], status: PodStatus) -> bool:
    """Return True if none of the sandboxes is ready."""
    return not any(sandbox.ready and sandbox.id in sandbox_ids for sandbox in status.sandboxes)


def with_failed_starts(status: PodStatus, failures: Mapping[str, StartFailure]) -> PodStatus:
    """Show containers left `created` by a failed start as ended with StartError, as containerd reports them."""
    if not failures or not any(c.id in failures and c.state == CREATED for c in status.containers):
        return status
    containers = tuple(_failed(c, failures.get(c.id)) for c in status.containers)
    return msgspec.structs.replace(status, containers=containers)


def _failed(container: ContainerStatus, failure: StartFailure | None) -> ContainerStatus:
    if failure is None or container.state != CREATED:
        return container
    return msgspec.structs.replace(
        container,
        state=EXITED,
        exit_code=START_ERROR_CODE,
        reason=START_ERROR,
        message=failure.message,
        started_ns=0,
        finished_ns=failure.finished_ns,
    )
