"""What one runtime event says of a pod, put into what is known of it. Pure.

An event carries one sandbox and that sandbox's containers (CRI-O: all of the pod's): the parts of other sandboxes stay
as they are until a relist says otherwise (else exited containers of an older sandbox would flicker). No status names
its sandbox: a container that is known stays where it is.
"""

from actors.pleg.build import container_status, pod_status, sandbox_status
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.wire import cri_pb2

_ORDER = {"created": 0, "unknown": 0, "running": 1, "exited": 2}


_TYPES = frozenset(cri_pb2.ContainerEventType.values())


def doubtful(old: PodStatus | None, event: "cri_pb2.ContainerEventResponse") -> bool:
    """Whether the event's content cannot be right or complete, so that the pod has to be inspected instead.

    A container that is known, not said to be deleted, and missing in the payload would otherwise look as if it were
    gone, and be started a second time.
    """
    sandbox = event.pod_sandbox_status
    if not sandbox.id or not event.container_id or event.container_event_type not in _TYPES:
        return True
    told = {item.id for item in event.containers_statuses}
    if event.container_event_type == cri_pb2.CONTAINER_DELETED_EVENT:
        told |= {event.container_id}
        if event.container_id == sandbox.id:
            return False
    every = _by_id(old)
    known = {item.id for item in every.values() if item.sandbox_id == sandbox.id}
    homeless = told - every.keys() - {event.container_id} if _has_another(old, sandbox.id) else set()
    return not known <= told or "" in told or bool(homeless)


def _has_another(old: PodStatus | None, sandbox: str) -> bool:
    return old is not None and any(item.id != sandbox for item in old.sandboxes)


def merged(old: PodStatus | None, event: "cri_pb2.ContainerEventResponse", stamp_ns: int) -> PodStatus | None:
    """The pod after the event; None when the runtime holds nothing of it any more."""
    sandbox = event.pod_sandbox_status
    deleted = event.container_id if event.container_event_type == cri_pb2.CONTAINER_DELETED_EVENT else ""
    sandboxes = {item.id: item for item in (old.sandboxes if old else ())} | {sandbox.id: sandbox_status(sandbox)}
    known = _by_id(old)
    fresh = {item.id: item for item in event.containers_statuses if item.id != deleted}
    if deleted == sandbox.id:
        del sandboxes[sandbox.id]
        fresh = {}
    kept = [item for item in known.values() if item.sandbox_id != sandbox.id and item.id not in fresh]
    if not sandboxes and not kept:
        return None
    containers = [_container(known.get(id_), item, sandbox.id) for id_, item in fresh.items()]
    return pod_status(sandbox.metadata, sandboxes.values(), [*kept, *containers], stamp_ns)


def _by_id(status: PodStatus | None) -> dict[str, ContainerStatus]:
    return {item.id: item for item in (status.containers if status else ())}


def _container(old: ContainerStatus | None, told: "cri_pb2.ContainerStatus", sandbox: str) -> ContainerStatus:
    """Containers do not restart under one id: created -> running -> exited, never back."""
    new = container_status(told, old.sandbox_id if old else sandbox)
    return old if old is not None and _ORDER[old.state] > _ORDER[new.state] else new


def with_ips_kept(old: PodStatus | None, new: PodStatus) -> PodStatus:
    """A pod whose sandbox is gone keeps the addresses it had, else a finished pod would lose its podIP."""
    if new.ips or old is None or any(item.ready for item in new.sandboxes):
        return new
    fields = {name: getattr(new, name) for name in new.__struct_fields__}
    return PodStatus(**(fields | {"ips": old.ips}))
