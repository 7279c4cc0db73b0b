"""Pods whose containers run, or ran: crash loops, probes, broken devices, a slow start, and pods that are fine."""

from collections.abc import Iterator, Sequence

from protocols.kube.meta import condition
from protocols.kube.objects import mapping, number, rows
from protocols.messages.trace import DEVICE_HEALTH
from protocols.process.texts import signal_name
from protocols.trace import Row
from supervisor.trace.slow import slowest, start_of
from supervisor.why.model.text import ago, at, event_line, plural, span_text
from supervisor.why.model.types import ApiEvent, Finding, PodEvidence
from supervisor.why.pods.view import APP, ContainerEnd, ContainerView, containers, events_about, spec_of, status_of

MEANINGS = {126: "the command cannot be executed", 127: "the command is not found", 128: "it could not be started"}
BEFORE_S = 60.0
"""Changes in this time before a container's death are shown."""
SLOW_S = 10.0
RESTARTED_S = 600.0
"""A run of this length resets the back-off of a container."""
DEVICES_OWNER = "health"
"""The process that first knows of a change of a device's health; the pod worker repeats it."""
CHANGES = ("patch", "update", "replace")
"""Steps of the API server that change a pod's spec, not its status."""
CRASHES = ("CrashLoopBackOff",)
NOT_STARTED, OUT_OF_MEMORY = "StartError", "OOMKilled"
"""Reasons of the state terminated."""


def crash_loop(found: PodEvidence) -> Finding | None:
    """Explain a container that ended and is started again and again."""
    crashed = [status for status in containers(found.pod or {}) if status.waiting in CRASHES or _crashed(status)]
    if not crashed:
        return None
    container = crashed[0]
    run = container.ended or container.last
    if run is None:
        return None
    reason = f"{container.kind} {container.name} {how(run, found.now)}; {_restarts(container)}"
    if run.code == 0:
        policy = container.spec.get("restartPolicy") or spec_of(found.pod or {}).get("restartPolicy")
        reason += f"; it is started again since its restart policy is {policy}"
    if cause := _killed_by(found, container, run):
        reason += f"; {cause}"
    evidence = (*_message(run), *log(found, container.name), *_before(found, run))
    begun = run.reason != NOT_STARTED
    advice = _log_command(found, container) if begun else f"correct command or workingDir of container {container.name}"
    return Finding("crash loop", reason, evidence if begun else (), (advice,))


def _crashed(container: ContainerView) -> bool:
    """Return True between two runs of a container that is to be started again."""
    ended = container.ended
    return ended is not None and ended.code != 0 and container.restarts > 0


def how(run: ContainerEnd, now: float) -> str:
    """Return how a run ended: code, signal, reason, time and length; or why it did not begin."""
    if run.reason == NOT_STARTED and run.message:
        return f"could not be started at {ago(run.finished, now)}: {' '.join(run.message.split())}"
    code = f"exit code {run.code}"
    if meaning := MEANINGS.get(run.code) or (signal_name(run.code - 128) if 128 < run.code < 160 else ""):
        code += f" ({meaning})"
    special = f" as {run.reason}" if run.reason not in ("", "Error", "Completed") else ""
    lasted = f", after {span_text(run.finished - run.started)}" if run.started and run.finished else ""
    return f"ended with {code}{special} at {ago(run.finished, now)}{lasted}"


def _restarts(container: ContainerView) -> str:
    text = f"it was restarted {plural(container.restarts, 'time')}"
    backoff = container.message.partition(" restarting ")[0]
    return f"{text}, next after a {backoff}" if backoff.startswith("back-off ") else text


def _killed_by(found: PodEvidence, container: ContainerView, run: ContainerEnd) -> str:
    """Return the limit, hook or probe for which a container was killed, if it was that."""
    limit = mapping(mapping(container.spec.get("resources")).get("limits")).get("memory")
    if run.reason == OUT_OF_MEMORY and limit:
        return f"its memory limit is {limit}"
    hook = hook_of(container, "postStart")
    events = events_about(found, container)
    if hook and any(event.reason == "FailedPostStartHook" and abs(event.at - run.finished) < BEFORE_S
                    for event in events):  # fmt: skip
        return f"the node ended it since its postStart hook ({hook}) failed"
    for event in reversed(events):
        _, failed, probe = event.message.partition(f"Container {container.name} failed ")
        if event.reason == "Killing" and failed:
            answers = _answers(events, probe.partition(" ")[0].capitalize())
            answer = _answer(answers[-1].message) if answers else ""
            killed = abs(event.at - run.finished) < BEFORE_S
            return f"the node ended it: {event.message.rstrip('.')}; last answer: {answer}" if killed else ""
    return ""


def _answers(events: Sequence[ApiEvent], kind: str) -> list[ApiEvent]:
    """Return the failures of a probe: Liveness, Readiness or Startup."""
    return [event for event in events if event.reason == "Unhealthy" and event.message.startswith(kind)]


def hook_of(container: ContainerView, kind: str) -> str:
    """Return what a lifecycle hook of a container does; "" without one."""
    hook = mapping(mapping(container.spec.get("lifecycle")).get(kind))
    return probe_text(hook) if hook else ""


def _message(run: ContainerEnd) -> Iterator[str]:
    if run.message and run.reason != NOT_STARTED:
        yield f"termination message: {' '.join(run.message.split())}"


def log(found: PodEvidence, container: str) -> Iterator[str]:
    """Yield the last lines of a container's log, or that it has none."""
    lines = found.logs.get(container, ())
    yield from (f"log of {container}: {line}" for line in lines)
    if container in found.logs and not lines:
        yield f"log of {container}: empty"


def _before(found: PodEvidence, run: ContainerEnd) -> Iterator[str]:
    """Yield what changed shortly before a container ended: its spec, or the health of its devices."""
    for row in found.steps:
        moment = row.time_ns / 1e9
        if run.finished - BEFORE_S <= moment <= run.finished and _is_change(row):
            yield f"{span_text(run.finished - moment)} before its end: {_change(row)}"


def _change(row: Row) -> str:
    if row.name == DEVICE_HEALTH:
        return f"its devices were reported {row.attributes.get('health', '')}".rstrip()
    return f"{row.attributes.get('user')} changed {row.attributes.get('fields') or 'it'} ({row.name} by {row.actor})"


def _is_change(row: Row) -> bool:
    of_devices = row.name == DEVICE_HEALTH and row.actor.endswith(DEVICES_OWNER)
    return of_devices or ("apiserver" in row.actor and row.name in CHANGES)


def _log_command(found: PodEvidence, container: ContainerView) -> str:
    namespace, _, name = found.key.partition("/")
    where = "" if namespace == "default" else f" -n {namespace}"
    return f"kubectl logs{where} {name} -c {container.name} --previous"


def partly_ended(found: PodEvidence) -> Finding | None:
    """Explain a container that ended while others run, or that is about to be started again."""
    pod = found.pod or {}
    over = [(status, status.ended) for status in containers(pod) if status.kind == APP and status.ended]
    if status_of(pod).get("phase") != "Running" or not over:
        return None
    container, run = next(((each, run) for each, run in over if run.code), over[0])
    policy = container.spec.get("restartPolicy") or spec_of(pod).get("restartPolicy")
    reason = f"container {container.name} {how(run, found.now)}; its restart policy is {policy}"
    evidence = (*_message(run), *log(found, container.name), *_before(found, run))
    return Finding("container ended", reason, evidence)


def restarted(found: PodEvidence) -> Finding | None:
    """Explain a pod in which a container ended with an error and runs again since a short time."""
    for container in containers(found.pod or {}):
        run = container.last
        if container.running and run and run.code and found.now - run.finished < RESTARTED_S:
            cause = f"; {killed}" if (killed := _killed_by(found, container, run)) else ""
            reason = f"{container.kind} {container.name} runs again; it {how(run, found.now)}{cause}"
            evidence = (*_message(run), *log(found, container.name), *_before(found, run))
            return Finding(
                "restarted", f"{reason}; {_restarts(container)}", evidence, (_log_command(found, container),)
            )
    return None


def not_ready(found: PodEvidence) -> Finding | None:
    """Explain a container that runs and whose probe has not succeeded."""
    unready = (status for status in containers(found.pod or {}) if status.running and not status.ready)
    probed = ((status, *_probe_of(status)) for status in unready if status.kind == APP or status.sidecar)
    container, kind, probe = next((each for each in probed if each[2]), (None, "", {}))
    if container is None:
        return None
    answers = _answers(events_about(found, container), kind)
    reason = f"the {kind.lower()} probe ({probe_text(probe)}) of container {container.name} has not succeeded"
    reason += f": last answer at {ago(answers[-1].at, found.now)}: {_answer(answers[-1].message)}" if answers else (
        f" since it started at {ago(container.running, found.now)}; {_unasked(probe, container.running, found.now)}"
    )  # fmt: skip
    evidence = (*(event_line(event) for event in answers[-2:]), *log(found, container.name))
    return Finding("not ready", reason, evidence, ("run the probe's command or request in the container yourself",))


def _unasked(probe: dict[str, object], started: float, now: float) -> str:
    first = started + number(probe.get("initialDelaySeconds"))
    if first > now:
        return f"it runs first at {at(first)}, in {span_text(first - now)}: initialDelaySeconds is {first - started:g}"
    return "no answer is recorded yet"


def _probe_of(container: ContainerView) -> tuple[str, dict[str, object]]:
    """Return the kind of the probe that decides now, and the probe."""
    startup = mapping(container.spec.get("startupProbe"))
    if startup and not container.started:
        return "Startup", startup
    return "Readiness", mapping(container.spec.get("readinessProbe"))


def probe_text(probe: dict[str, object]) -> str:
    """Return what a probe or hook does, such as `exec cat /ready` or `GET :8080/healthz`."""
    if command := mapping(probe.get("exec")).get("command"):
        return f"exec {' '.join(map(str, command))}" if isinstance(command, list) else "exec"
    if get := mapping(probe.get("httpGet")):
        return f"GET :{get.get('port')}{get.get('path') or '/'}"
    for kind in ("tcpSocket", "grpc"):
        if target := mapping(probe.get(kind)):
            return f"{kind} :{target.get('port')}"
    if sleep := mapping(probe.get("sleep")):
        return f"sleep {sleep.get('seconds')} s"
    return "nothing"


def _answer(message: str) -> str:
    """Return a probe's answer from the event, whose begin names the probe."""
    begin, colon, answer = message.partition(":")
    return answer.strip() or ("a failure without any output" if colon else begin)


def gate(found: PodEvidence) -> Finding | None:
    """Explain a pod with a readiness gate that is not met."""
    pod = found.pod or {}
    gates = (str(row.get("conditionType")) for row in rows(spec_of(pod).get("readinessGates")))
    unmet = [name for name in gates if (condition(pod, name) or {}).get("status") != "True"]
    if status_of(pod).get("phase") != "Running" or not unmet:
        return None
    reason = f"readiness gate {unmet[0]}: the condition is {(condition(pod, unmet[0]) or {}).get('status', 'missing')}"
    return Finding("not ready", reason, advice=("the controller of the gate sets the condition in the pod's status",))


def broken_device(found: PodEvidence) -> Finding | None:
    """Explain a running pod that holds a device which is not healthy."""
    broken = [device for device in found.devices if device.health != "Healthy"]
    claimed = [(name, device) for name, device in _claim_health(found) if device.get("health") != "Healthy"]
    if status_of(found.pod or {}).get("phase") != "Running" or not (broken or claimed):
        return None
    lines = [_health_line(f"{row.resource} {row.device}", row.health, row.message) for row in broken]
    lines += [_health_line(f"{each.get('resourceID')} of {name}", each.get("health"), each.get("message"))
              for name, each in claimed]  # fmt: skip
    return Finding("running on a broken device", f"its containers run, but {lines[0]}", tuple(lines[1:]))


def _health_line(device: str, health: object, message: object) -> str:
    return f"device {device} is {health}{f': {message}' if message else ''}"


def _claim_health(found: PodEvidence) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the health of drivers' devices from the pod's status; that of plugins' devices is read from the node."""
    plugins = {row.resource for row in found.devices}
    status_of_pod = status_of(found.pod or {})
    for status in (*rows(status_of_pod.get("containerStatuses")), *rows(status_of_pod.get("initContainerStatuses"))):
        for resource in rows(status.get("allocatedResourcesStatus")):
            if resource.get("name") not in plugins:
                yield from ((str(resource.get("name")), row) for row in rows(resource.get("resources")))


def slow_start(found: PodEvidence) -> Finding | None:
    """Explain a running pod whose start took more than SLOW_S."""
    if not _runs(found) or (start := start_of(found.steps)) is None or start[1] - start[0] < SLOW_S * 1e9:
        return None
    name, length = slowest(found.steps)
    took, part = span_text((start[1] - start[0]) / 1e9), span_text(length / 1e9)
    reason = f"it runs; its start took {took}, of which {part} were {name}"
    return Finding(
        "slow start", reason, tuple(_running(found)), (f"see `nodeplane trace pod/{found.key.partition('/')[2]}`",)
    )


def fine(found: PodEvidence) -> Finding | None:
    """Describe a running pod of which nothing is wrong."""
    if not _runs(found):
        return None
    evidence = list(_running(found))
    if start := start_of(found.steps):
        name, length = slowest(found.steps)
        evidence.append(
            f"its start took {span_text((start[1] - start[0]) / 1e9)}, {span_text(length / 1e9)} of it {name}"
        )
    since = (condition(found.pod or {}, "Ready") or {}).get("lastTransitionTime")
    return Finding("running", f"all its containers run and are ready since {since}", tuple(evidence))


def _runs(found: PodEvidence) -> bool:
    pod = found.pod or {}
    ready = (condition(pod, "Ready") or {}).get("status") == "True"
    return ready and status_of(pod).get("phase") == "Running"


def _running(found: PodEvidence) -> Iterator[str]:
    for container in containers(found.pod or {}):
        if container.restarts and container.last:
            times = plural(container.restarts, "time")
            yield f"{container.kind} {container.name} was restarted {times}; it {how(container.last, found.now)}"
    claimed = status_of(found.pod or {}).get("extendedResourceClaimStatus") or {}
    held = {row.get("resourceName") for row in rows(claimed.get("requestMappings"))}
    held |= {device.resource for device in found.devices}
    for plugin in found.plugins:
        if plugin.resource not in held and not plugin.known and not plugin.plugins:
            yield f"requests {plugin.resource}, which its node does not have: a kubelet ignores that, it gets no device"
    for device in found.devices:
        yield f"holds {device.resource} {device.device}, {device.health}"
