"""One element of status.containerStatuses or initContainerStatuses. Pure."""

from collections.abc import Mapping
from itertools import islice

from protocols.kinds import views
from protocols.kube.times import format_ns
from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.probes import ProbeVerdict
from protocols.lifecycle.pods.types import APP, EPHEMERAL, INIT, NEVER, ContainerSpec, PodSpec, Waiting
from protocols.lifecycle.restarts.policy import policy_of
from protocols.messages.pleg import ContainerStatus

FINE = ProbeVerdict()
MAX_MOUNTS = 1000
"""Volume mounts in the status of a container."""
LOST = "ContainerStatusUnknown"
LOST_CODE = 137
LOST_MESSAGE = "The container could not be located when the pod was terminated"
RAN_MESSAGE = "The container could not be located when the pod was deleted.  The container used to be Running"
"""Upstream's, which programs look for: the second of a container that is about to start again."""


class RenderContext:
    """Common inputs of all container statuses of a pod."""

    def __init__(
        self,
        spec: PodSpec,
        runtime: str,
        default_reason: str,
        final: bool,
        verdicts: Mapping[str, ProbeVerdict] | None = None,
        removed: bool = False,
        recursive: bool = False,
        initialized: bool = False,
    ) -> None:
        """`removed`: podworker removed the runs of containers that have none, to start all of them again.

        `recursive`: the runtime can make mounts below a read-only one read-only. `initialized`: the init containers are
        done, or there are none.
        """
        self.spec = spec
        self.runtime = runtime
        self.default = Waiting(default_reason)
        self.verdicts = verdicts or {}
        self.removed = removed
        self.recursive = recursive
        self.initialized = initialized
        self.final = final
        """Nothing of the pod runs or will run: every container of an initialized pod gets a terminated state."""


def render(
    context: RenderContext,
    container: ContainerSpec,
    attempts: list[ContainerStatus],
    waiting: Waiting | None,
    before: views.ContainerStatus | None,
) -> views.ContainerStatus:
    """Return a container status.

    `attempts`: runs, newest first. `waiting`: reason not to start. `before`: status in the API.
    """
    if attempts:
        status = _of_runs(context, container, attempts, waiting, before)
    else:
        status = _without_run(context, container, waiting, before)
    if mounts := mount_statuses(container, before or {}, context.recursive):
        status["volumeMounts"] = mounts
    return status


def _of_runs(
    context: RenderContext,
    container: ContainerSpec,
    attempts: list[ContainerStatus],
    waiting: Waiting | None,
    before: views.ContainerStatus | None,
) -> views.ContainerStatus:
    newest = attempts[0]
    state, last = _states(context, attempts, waiting)
    if not last and newest.restart_count:
        last = (before or {}).get("lastState") or {}  # its run was removed
    running = "running" in state
    verdict = context.verdicts.get(newest.id, FINE)
    return {
        "name": container.name,
        "state": state,
        "lastState": last,
        "ready": _ready(container, newest, running and verdict.ready),
        **_reported(newest),
        "restartCount": max(newest.restart_count, (before or {}).get("restartCount", 0)),
        "image": _image(newest.image) or container.image,
        "imageID": newest.image_id,
        "containerID": f"{context.runtime}://{newest.id}",
        "started": running and verdict.started,
    }


def _reported(newest: ContainerStatus) -> views.ContainerStatus:
    """Return user and stop signal, where the runtime reports them."""
    shown: views.ContainerStatus = {}
    if newest.user:
        uid, gid, *groups = newest.user
        further: views.LinuxContainerUser = {"supplementalGroups": groups} if groups else {}
        shown["user"] = {"linux": {"uid": uid, "gid": gid, **further}}
    if newest.stop_signal:
        shown["stopSignal"] = newest.stop_signal
    return shown


def mount_statuses(
    container: ContainerSpec, before: views.ContainerStatus, recursive: bool
) -> list[views.VolumeMountStatus]:
    """Return the container's volume mounts as its status shows them, the first MAX_MOUNTS.

    They never change: those in the API are retained. `recursive`: the runtime can make mounts below a read-only one
    read-only.
    """
    shown = before.get("volumeMounts") or []
    given = islice(container.raw.get("volumeMounts") or (), MAX_MOUNTS)
    return shown or [_mount_status(mount, recursive) for mount in given]


def _mount_status(mount: views.VolumeMount, recursive: bool) -> views.VolumeMountStatus:
    status: views.VolumeMountStatus = {"name": mount.get("name", ""), "mountPath": mount.get("mountPath", "")}
    if not mount.get("readOnly"):
        return status
    wanted = mount.get("recursiveReadOnly") in ("Enabled", "IfPossible")
    alone = (mount.get("mountPropagation") or "None") == "None"
    mode = "Enabled" if wanted and alone and recursive else "Disabled"
    return {**status, "readOnly": True, "recursiveReadOnly": mode}


def _image(name: str) -> str:
    """Return the runtime's name of the image, empty for a bare id: the name in the spec says more."""
    return "" if name.startswith("sha256:") else name


def _ready(container: ContainerSpec, newest: ContainerStatus, running: bool) -> bool:
    if container.kind == INIT:
        return newest.state == runtime_status.EXITED and newest.exit_code == 0
    return running


def _states(
    context: RenderContext, attempts: list[ContainerStatus], waiting: Waiting | None
) -> tuple[views.ContainerState, views.ContainerState]:
    newest, earlier = attempts[0], _ended(attempts[1:])
    previous = _terminated(context, earlier) if earlier else {}
    if newest.state == runtime_status.RUNNING:
        return {"running": {"startedAt": format_ns(newest.started_ns)}}, previous
    if newest.state == runtime_status.EXITED:
        ended = _terminated(context, newest)
        return (_waiting(waiting), ended) if waiting and not context.final else (ended, previous)
    if newest.state == runtime_status.UNKNOWN or context.final:
        return lost(f"{context.runtime}://{newest.id}"), previous
    return _waiting(waiting or context.default), previous


def _ended(attempts: list[ContainerStatus]) -> ContainerStatus | None:
    return next((c for c in attempts if c.state == runtime_status.EXITED), None)


def _without_run(
    context: RenderContext, container: ContainerSpec, waiting: Waiting | None, before: views.ContainerStatus | None
) -> views.ContainerStatus:
    """Render a container without a run in the runtime, from what the API recorded of it."""
    before = before or {}
    status: views.ContainerStatus = {
        "name": container.name,
        "ready": False,
        "restartCount": before.get("restartCount", 0),
        "image": container.image,
        "imageID": before.get("imageID", ""),
        "started": False,
        "lastState": before.get("lastState") or {},
    }
    if before.get("containerID"):
        status["containerID"] = before["containerID"]
    state = before.get("state") or {}
    if context.removed and not context.final:
        ended = state if "terminated" in state else status["lastState"]
        return {**status, "state": _waiting(waiting or context.default), "lastState": ended}
    if "terminated" in state:
        keeps_ready = container.kind == INIT and state["terminated"].get("exitCode") == 0
        return {**status, "state": state, "ready": keeps_ready}
    if "running" in state:
        once = container.kind == EPHEMERAL or policy_of(context.spec.restart_policy, container) == NEVER
        if context.final or once:
            return {**status, "state": lost(before.get("containerID", ""))}
        gone = lost(before.get("containerID", ""), RAN_MESSAGE)
        return {**status, "state": _waiting(waiting or context.default), "lastState": gone}
    if context.final and container.kind == APP and (context.initialized or before.get("containerID")):
        return {**status, "state": lost(before.get("containerID", ""))}
    return {**status, "state": _waiting(waiting or context.default)}


def _waiting(waiting: Waiting) -> views.ContainerState:
    inner: views.ContainerStateWaiting = {"reason": waiting.reason}
    if waiting.message:
        inner["message"] = waiting.message
    return {"waiting": inner}


def _terminated(context: RenderContext, container: ContainerStatus) -> views.ContainerState:
    reason = container.reason or ("Completed" if container.exit_code == 0 else "Error")
    inner: views.ContainerStateTerminated = {
        "exitCode": container.exit_code,
        "reason": reason,
        "containerID": f"{context.runtime}://{container.id}",
    }
    if container.started_ns:
        inner["startedAt"] = format_ns(container.started_ns)
    if container.finished_ns:
        inner["finishedAt"] = format_ns(container.finished_ns)
    if container.message:
        inner["message"] = container.message
    return {"terminated": inner}


def lost(container_id: str, message: str = LOST_MESSAGE) -> views.ContainerState:
    """Return the state of a container whose end was not observed, or that never ran in a pod that has ended."""
    inner: views.ContainerStateTerminated = {"exitCode": LOST_CODE, "reason": LOST, "message": message}
    if container_id:
        inner["containerID"] = container_id
    return {"terminated": inner}
