"""Pods that a node admitted and whose containers do not run yet: claims, volumes, sandbox, image, configuration."""

import re
from collections.abc import Iterator, Sequence

from protocols.kube.objects import rows
from protocols.kube.pods import node_of
from protocols.messages.calls import CallRecord
from protocols.trace import Row
from supervisor.calls.text import record_lines
from supervisor.why.model.text import ago, event_line, span_text
from supervisor.why.model.types import ApiEvent, Finding, PodEvidence
from supervisor.why.pods.running import hook_of
from supervisor.why.pods.view import ContainerView, containers, events_about, status_of

IMAGE_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError")
VOLUMES, CLAIMS = "FailedMount", "FailedPrepareDynamicResources"
SANDBOX_EVENTS = ("FailedCreatePodSandBox", "NetworkNotReady")
NO_NETWORK = "give the runtime a CNI configuration; without one only pods with hostNetwork: true run"
RECENT_S = 600.0
"""An older failure has been tried again since, with another result: resyncs come each 90 s."""


def image(found: PodEvidence) -> Finding | None:
    """Explain a container whose image is missing."""
    container = _waiting(found, IMAGE_REASONS)
    if container is None:
        return None
    events = events_about(found, container)
    pulls = [event.message for event in events if event.message.startswith("Failed to pull image")]
    detail = pulls[-1] if pulls else container.message
    reason = f"image {container.image!r} of {container.kind} {container.name}: {container.waiting}: {detail}"
    evidence = [event_line(event) for event in events if event.reason in ("Failed", "BackOff", "Pulling")]
    advice = "import it with `nodeplane image import`, or correct its name; `nodeplane image ls` lists those there are"
    return Finding("waiting for its image", reason, tuple(evidence[-3:]), (advice,))


def configuration(found: PodEvidence) -> Finding | None:
    """Explain a container that cannot be created from its spec, or from a plugin's answer."""
    container = _waiting(found, CONFIG_REASONS)
    if container is None:
        return None
    reason = f"{container.kind} {container.name} cannot be created: {container.waiting}: {container.message}"
    if call := _culprit(found, container):
        look = f"see `nodeplane why plugin/{call.peer}` and `nodeplane calls {call.peer}`"
        reason += f"; {call.method} of the plugin of {call.peer} answered so"
        return Finding("waiting for its configuration", reason, tuple(record_lines(call)), (look,))
    missing = "not found" in container.message
    advice = "create what is missing" if missing else "correct the container's spec"
    return Finding("waiting for its configuration", reason, (), (f"{advice}; the node tries again by itself",))


def _culprit(found: PodEvidence, container: ContainerView) -> CallRecord | None:
    """Return the plugin's call for which a container cannot be created: it failed, or answered a wrong CDI name."""
    for call in reversed(found.calls):
        failed = call.method == "PreStartContainer" and call.status not in ("OK", "") and call.error
        if failed and call.error in container.message:
            return call
        if any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", container.message) for name in _cdi_names(call)):
            return call
    return None


def _cdi_names(call: CallRecord) -> Iterator[str]:
    for answer in rows(call.reply.get("container_responses")):
        yield from filter(None, (str(device.get("name") or "") for device in rows(answer.get("cdi_devices"))))


def volumes(found: PodEvidence) -> Finding | None:
    """Explain a pod whose volumes are not mounted."""
    event = _failing(found, (VOLUMES,))
    if event is None:
        return None
    evidence = (event_line(event), *_longest(found.steps, "volumes"))
    return Finding(
        "waiting for its volumes", event.message, evidence, ("create what is missing; the node tries again",)
    )


def claims(found: PodEvidence) -> Finding | None:
    """Explain a pod whose claims are not prepared: a call in progress, or the event of one that failed."""
    event = _failing(found, (CLAIMS,))
    call = next((call for call in found.calls if not call.status and call.method.startswith("NodePrepare")), None)
    if call is not None:
        reason = f"{call.method} of driver {call.peer} is in progress for {span_text(call.seconds)}"
        return Finding("waiting for its driver", reason, (), (f"see `nodeplane calls {call.peer}`",))
    if event is None:
        return None
    advice = "see `nodeplane devices --drivers` and `nodeplane calls DRIVER`"
    return Finding("waiting for its driver", event.message, (event_line(event),), (advice,))


def sandbox(found: PodEvidence) -> Finding | None:
    """Explain a pod whose sandbox cannot be created."""
    event = _failing(found, SANDBOX_EVENTS)
    if event is None:
        return None
    advice = NO_NETWORK if event.reason == "NetworkNotReady" else "see `nodeplane logs cri` and the log of the runtime"
    return Finding("waiting for its sandbox", event.message, (event_line(event),), (advice,))


def post_start(found: PodEvidence) -> Finding | None:
    """Explain a container that is shown as waiting until its postStart hook has ended."""
    for container in containers(found.pod or {}):
        hook = hook_of(container, "postStart")
        starts = (e.at for e in reversed(found.events) if (e.reason, e.container) == ("Started", container.name))
        began = next(starts, 0)
        if hook and began and container.waiting in ("ContainerCreating", "PodInitializing"):
            reason = (
                f"container {container.name} started at {ago(began, found.now)} and runs its postStart hook ({hook})"
            )
            reason += ", for which later containers and readiness wait"
            return Finding("starting", reason, found.unread)
    return None


def step_in_progress(found: PodEvidence) -> Finding | None:
    """Describe a starting pod in which nothing failed: the last step that ended, and what is awaited."""
    pod = found.pod or {}
    pending = [container for container in containers(pod) if not container.running and not container.ended]
    if not node_of(pod) or status_of(pod).get("phase") != "Pending" or not pending:
        return None
    last = max(found.steps, key=lambda row: row.start_ns + row.duration_ns, default=None)
    detail = ""
    if last is not None:
        ended = (last.time_ns + last.duration_ns) / 1e9
        detail = f"; the last step that ended is {last.name!r} of {last.actor}, {span_text(found.now - ended)} ago"
    running = next((container for container in containers(pod) if container.running and not container.ready), None)
    if running is not None:
        reason = (
            f"{running.kind} {running.name} runs since {ago(running.running, found.now)} and must end or start first"
        )
    else:
        reason = f"{pending[0].kind} {pending[0].name} is being created ({pending[0].waiting or 'no status yet'})"
    return Finding("starting", reason + detail, found.unread)


def _waiting(found: PodEvidence, reasons: Sequence[str]) -> ContainerView | None:
    return next((container for container in containers(found.pod or {}) if container.waiting in reasons), None)


def _failing(found: PodEvidence, reasons: Sequence[str]) -> ApiEvent | None:
    """Return the newest event of these reasons, if no container of the pod has started since."""
    event, pod = _last(found.events, reasons), found.pod or {}
    if event is None or not node_of(pod) or found.now - event.at > RECENT_S:
        return None
    began = [
        run
        for container in containers(pod)
        for run in (container.running, container.ended.started if container.ended else 0.0)
    ]
    return (
        event
        if event.at > max(began, default=0.0) and any(not container.running for container in containers(pod))
        else None
    )


def _last(events: Sequence[ApiEvent], reasons: Sequence[str]) -> ApiEvent | None:
    return next((event for event in reversed(events) if event.reason in reasons), None)


def _longest(steps: Sequence[Row], name: str) -> list[str]:
    timed = [row for row in steps if row.name == name and row.duration_ns]
    return (
        [f"step {name!r} took {span_text(max(row.duration_ns for row in timed) / 1e9)} at the longest"] if timed else []
    )
