"""Parse requests to the node endpoint and find the container run or sandbox they name. Pure."""

import time
from collections.abc import Mapping

import msgspec

from actors.podworker.endpoint.errors import RequestInvalid, StreamTargetMissing
from actors.podworker.logs.reader import LogOptions, stamp_ns
from protocols.kinds import views
from protocols.kube.meta import CONTAINER_LISTS, STATUS_LISTS
from protocols.messages.pleg import ContainerStatus, PodStatus

STREAMS = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}
RAN = ("running", "exited")
WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
"""Upstream's words for reasons of a waiting container."""


class PodTarget(msgspec.Struct, frozen=True):
    """The container that a path names."""

    namespace: str
    pod: str
    container: str
    uid: str = ""
    """Required uid of the pod; empty if any pod of that name will do."""


class ExecOptions(msgspec.Struct, frozen=True):
    """Command and streams of an exec or attach."""

    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


def log_options(query: Mapping[str, str]) -> LogOptions:
    """Read the query of a log request. Raises RequestInvalid."""
    stream = query.get("stream", "")
    if stream not in STREAMS:
        raise RequestInvalid(f"stream is {stream!r}; use All, Stdout or Stderr")
    return LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail=_number(query, "tailLines"),
        limit=_number(query, "limitBytes"),
        since_ns=_since(query),
        stream=STREAMS[stream],
    )


def exec_options(query: Mapping[str, str], command: list[str]) -> ExecOptions:
    """Parse the options of exec and attach. Like kubelet, the node calls the streams `input`, `output` and `error`."""
    tty = query.get("tty") == "1"
    options = ExecOptions(
        command=tuple(command),
        stdin=query.get("input") == "1",
        stdout=query.get("output") == "1",
        stderr=query.get("error") == "1" and not tty,
        tty=tty,
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise RequestInvalid("you must specify at least 1 of stdin, stdout, stderr")
    return options


def _flag(query: Mapping[str, str], name: str) -> bool:
    """Parse a boolean parameter. Without a value, or with any other, it is true, as upstream reads it."""
    return query.get(name, "false").lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int:
    value = query.get(name, "")
    if value and not (value.isascii() and value.isdigit() and len(value) < 19):
        raise RequestInvalid(f"{name} is {value!r}; use a number that is not negative")
    return int(value) if value else -1


def _since(query: Mapping[str, str]) -> int:
    seconds, moment = _number(query, "sinceSeconds"), query.get("sinceTime", "")
    if not moment:
        return time.time_ns() - seconds * 1_000_000_000 if seconds >= 0 else 0
    at = stamp_ns(moment.encode())
    if at is None:
        raise RequestInvalid(f"sinceTime is {moment!r}; write it as 2026-01-31T12:00:00Z")
    return at


def run_for_log(
    target: PodTarget, known: PodStatus | None, shown: views.ContainerStatus | None, previous: bool
) -> ContainerStatus:
    """Select the container run whose log is requested.

    `known` is the pod's runtime status, `shown` the container's status in the API. While a container waits for its
    restart, its newest run already is the previous one. Raises RequestInvalid.
    """
    runs = _runs(target.container, known)
    ran = [run for run in runs if run.state in RAN]
    if previous:
        waits = bool(((shown or {}).get("state") or {}).get("waiting"))
        ended = [run for run in ran if run.state == "exited"]
        if ended and (ended[0] is not ran[0] or waits):
            return ended[0]
        if len(ended) > 1:
            return ended[1]
        raise RequestInvalid(f'previous terminated container "{target.container}" in pod "{target.pod}" not found')
    if ran:
        return ran[0]
    raise RequestInvalid(f'container "{target.container}" in pod "{target.pod}" is {_state_text(shown)}')


def running(target: PodTarget, known: PodStatus | None) -> ContainerStatus:
    """Select the running container. Raises StreamTargetMissing."""
    for run in _runs(target.container, known):
        if run.state == "running":
            return run
    raise StreamTargetMissing(f'container not found ("{target.container}")')


def ready_sandbox(target: PodTarget, known: PodStatus | None) -> str:
    """Return the id of the pod's ready sandbox. Raises StreamTargetMissing."""
    for sandbox in known.sandboxes if known else ():
        if sandbox.ready:
            return sandbox.id
    raise StreamTargetMissing(f'pod "{target.pod}" has no running sandbox')


def is_running(known: PodStatus | None, id: str) -> bool:
    """Return True if the container run with this id runs."""
    return any(run.id == id and run.state == "running" for run in (known.containers if known else ()))


def shown_status(pod: views.Pod, container: str) -> views.ContainerStatus | None:
    """Return the container's status of any kind in the pod's status, None if it has none yet."""
    status = pod.get("status") or {}
    shown = (entry for kind in STATUS_LISTS for entry in status.get(kind) or ())
    return next((entry for entry in shown if entry.get("name") == container), None)


def find_pod(pods: Mapping[str, views.Pod], target: PodTarget) -> views.Pod:
    """Return the pod object that `target` names. Raises StreamTargetMissing."""
    pod = pods.get(f"{target.namespace}/{target.pod}")
    if pod is None or (target.uid and (pod.get("metadata") or {}).get("uid") != target.uid):
        raise StreamTargetMissing(f'pod "{target.pod}" does not exist')
    spec = pod.get("spec") or {}
    names = [c.get("name") for kind in CONTAINER_LISTS for c in spec.get(kind) or ()]
    if target.container and target.container not in names:
        raise StreamTargetMissing(f'container "{target.container}" not found in pod "{target.pod}"')
    return pod


def _runs(container: str, known: PodStatus | None) -> list[ContainerStatus]:
    """Return the runs of a container, newest first."""
    runs = [run for run in (known.containers if known else ()) if run.name == container]
    return sorted(runs, key=lambda run: (run.attempt, run.created_ns), reverse=True)


def _state_text(shown: views.ContainerStatus | None) -> str:
    """Return upstream's words for a container of which nothing ran."""
    if shown is None:
        return "not available"
    state = shown.get("state") or {}
    if state.get("terminated"):
        return "terminated"
    reason = str((state.get("waiting") or {}).get("reason") or "ContainerCreating")
    return f"waiting to start: {WAITING.get(reason, reason)}"


def target_of(path: list[str], container: bool) -> PodTarget:
    """Parse `NAMESPACE/POD[/UID][/CONTAINER]`, as in kubelet's paths. Raises StreamTargetMissing."""
    length = 3 if container else 2
    if len(path) not in (length, length + 1) or not all(path):
        raise StreamTargetMissing("the node's paths are NAMESPACE/POD[/UID]" + "/CONTAINER" * container)
    uid = path[2] if len(path) > length else ""
    return PodTarget(namespace=path[0], pod=path[1], container=path[-1] if container else "", uid=uid)


def uid_of(pod: views.Pod) -> str:
    """Return the pod's uid in the runtime. For mirror pods it is that of the static pod, carried as an annotation."""
    metadata = pod.get("metadata") or {}
    mirrored = (metadata.get("annotations") or {}).get("kubernetes.io/config.hash")
    return str(mirrored or metadata.get("uid") or "")
