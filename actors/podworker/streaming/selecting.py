"""Which of a container's runs a request means. Pure."""

from collections.abc import Mapping

from actors.podworker.streaming.errors import RequestInvalid, StreamTargetMissing
from actors.podworker.streaming.types import Where
from actors.podworker.types import Object
from protocols.messages.pleg import ContainerStatus, PodStatus

RAN = ("running", "exited")
KINDS = ("containers", "initContainers", "ephemeralContainers")
LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def for_log(where: Where, known: PodStatus | None, shown: Object | None, previous: bool) -> ContainerStatus:
    """`known`: what the runtime has; `shown`: the container's status in the API. Raises RequestInvalid.

    While a container waits for its restart its newest run is already the previous one, as its status shows it.
    """
    runs = _runs(where.container, known)
    ran = [run for run in runs if run.state in RAN]
    if previous:
        waits = bool(((shown or {}).get("state") or {}).get("waiting"))
        ended = [run for run in ran if run.state == "exited"]
        if ended and (ended[0] is not ran[0] or waits):
            return ended[0]
        if len(ended) > 1:
            return ended[1]
        raise RequestInvalid(f'previous terminated container "{where.container}" in pod "{where.pod}" not found')
    if ran:
        return ran[0]
    raise RequestInvalid(f'container "{where.container}" in pod "{where.pod}" is waiting to start: {_why(shown)}')


def running(where: Where, known: PodStatus | None) -> ContainerStatus:
    """Raises StreamTargetMissing when it does not run."""
    for run in _runs(where.container, known):
        if run.state == "running":
            return run
    raise StreamTargetMissing(f'container not found ("{where.container}")')


def ready_sandbox(where: Where, known: PodStatus | None) -> str:
    """Raises StreamTargetMissing."""
    for sandbox in known.sandboxes if known else ():
        if sandbox.ready:
            return sandbox.id
    raise StreamTargetMissing(f'pod "{where.pod}" has no running sandbox')


def is_running(known: PodStatus | None, id: str) -> bool:
    return any(run.id == id and run.state == "running" for run in (known.containers if known else ()))


def shown_status(pod: Object, container: str) -> Object | None:
    """The container's status in the pod object."""
    status = pod.get("status") or {}
    found = (entry for kind in LISTS for entry in status.get(kind) or () if entry.get("name") == container)
    return next(found, None)


def find_pod(pods: Mapping[str, Object], where: Where) -> Object:
    """Raises StreamTargetMissing."""
    pod = pods.get(f"{where.namespace}/{where.pod}")
    if pod is None or (where.uid and (pod.get("metadata") or {}).get("uid") != where.uid):
        raise StreamTargetMissing(f'pod "{where.pod}" is not on this node')
    spec = pod.get("spec") or {}
    names = [c.get("name") for kind in KINDS for c in spec.get(kind) or ()]
    if where.container and where.container not in names:
        raise StreamTargetMissing(f'container "{where.container}" is not part of pod "{where.pod}"')
    return pod


def _runs(container: str, known: PodStatus | None) -> list[ContainerStatus]:
    """Newest first."""
    runs = [run for run in (known.containers if known else ()) if run.name == container]
    return sorted(runs, key=lambda run: (run.created_ns, run.attempt), reverse=True)


def _why(shown: Object | None) -> str:
    waiting = ((shown or {}).get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason") or "ContainerCreating"
    if reason == "ErrImagePull":
        return "image can't be pulled"
    return "trying and failing to pull image" if reason == "ImagePullBackOff" else str(reason)
