"""Compute the next steps for a pod in the runtime: compute_actions(spec, status) -> Plan. Pure.

Invariant: a plan never starts a container while another one of that name may still run.
"""

from collections.abc import Mapping

import msgspec

from actors.podworker.model import runtime_status
from actors.podworker.model.types import (
    NEVER,
    SIDECAR,
    BackoffEntry,
    ContainerSpec,
    Kill,
    Plan,
    PodSpec,
    Start,
    Waiting,
)
from actors.podworker.pods.probes.results import Verdict
from actors.podworker.pods.restarts.policy import Restarts, own_policy
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus

FINE = Verdict()
CREATING = "ContainerCreating"
RETAINED_ATTEMPTS = 2
"""Runs retained per container: the newest, and the previous one (lastState and `logs --previous`)."""


def compute_actions(
    spec: PodSpec,
    status: PodStatus,
    backoffs: Mapping[str, BackoffEntry],
    now_ns: int,
    counts: Mapping[str, int] | None = None,
    verdicts: Mapping[str, Verdict] | None = None,
) -> Plan:
    """Return the next steps for a pod that should run.

    `verdicts` by container id. `counts`: restart counts in the API, for containers that the runtime has forgotten.
    """
    restarts = Restarts(spec, status, backoffs, now_ns, counts or {})
    sandbox = runtime_status.current_sandbox(status)
    if sandbox is None:
        return _without_sandbox(spec, status, restarts)
    return _in_sandbox(spec, status, sandbox, restarts, verdicts or {})


def teardown(status: PodStatus) -> tuple[str, ...]:
    """Return the sandboxes to stop once no container runs."""
    return tuple(s.id for s in status.sandboxes if s.ready)


def _without_sandbox(spec: PodSpec, status: PodStatus, restarts: Restarts) -> Plan:
    running = runtime_status.live(status)
    stop = teardown(status)
    if running or stop:  # everything of the old sandbox ends first; a newer status decides on the next one
        return Plan(kill=tuple(_kill(c, "Pod sandbox changed") for c in running), stop_sandboxes=stop)
    never = spec.restart_policy == NEVER and not any(own_policy(c) for c in spec.apps)
    if never and status.sandboxes and status.containers:
        return Plan()
    if not any(restarts.should_run(c) for c in spec.apps):
        return Plan()
    start = _next(spec, {}, restarts, {})
    attempt = status.sandboxes[0].attempt + 1 if status.sandboxes else 0
    return Plan(create_sandbox=attempt, start=start, waiting=restarts.waiting, wake_ns=restarts.wake_ns)


def _in_sandbox(
    spec: PodSpec, status: PodStatus, sandbox: SandboxStatus, restarts: Restarts, verdicts: Mapping[str, Verdict]
) -> Plan:
    newest: dict[str, ContainerStatus] = {}
    for container in status.containers:
        if container.sandbox_id == sandbox.id:
            newest.setdefault(container.name, container)
    kill = _to_kill(spec, status, newest, verdicts)
    blocked = {k.name for k in kill}
    steps = (*_ephemeral(spec, newest, restarts), *_next(spec, newest, restarts, verdicts))
    start = tuple(s for s in steps if s.name not in blocked)
    return Plan(
        kill=kill,
        sandbox=sandbox.id,
        start=start,
        remove=_removable(status),
        waiting=restarts.waiting,
        wake_ns=restarts.wake_ns,
    )


def _next(
    spec: PodSpec,
    newest: Mapping[str, ContainerStatus],
    restarts: Restarts,
    verdicts: Mapping[str, Verdict],
) -> tuple[Start, ...]:
    """Start init containers one by one, then all apps; once an app was started, only sidecars and apps restart."""
    begun = any(c.name in newest for c in spec.apps)
    if not begun:
        step = _next_init(spec, newest, restarts, verdicts)
        if step is not None:
            return step
    candidates = [*(c for c in spec.inits if c.kind == SIDECAR), *spec.apps] if begun else spec.apps
    steps = (restarts.decide(c, newest.get(c.name)) for c in candidates)
    return tuple(s for s in steps if s is not None)


def _ephemeral(spec: PodSpec, newest: Mapping[str, ContainerStatus], restarts: Restarts) -> tuple[Start, ...]:
    """Start each ephemeral container once, after its target runs."""
    steps = []
    for container in spec.ephemeral:
        target, step = str(container.raw.get("targetContainerName") or ""), restarts.once(container)
        seen = newest.get(target)
        if step is not None and target and (seen is None or seen.state != runtime_status.RUNNING):
            restarts.waiting[container.name] = Waiting(CREATING, f"waits for container {target} to run")
        elif step is not None:
            steps.append(msgspec.structs.replace(step, target=seen.id if seen else ""))
    return tuple(steps)


def _next_init(
    spec: PodSpec,
    newest: Mapping[str, ContainerStatus],
    restarts: Restarts,
    verdicts: Mapping[str, Verdict],
) -> tuple[Start, ...] | None:
    """Return the steps of the init phase, None when it is over."""
    for container in spec.inits:
        last = newest.get(container.name)
        if _passed(container, last, verdicts):
            continue
        step = restarts.decide(container, last)
        return (step,) if step is not None else ()
    return None


def _passed(container: ContainerSpec, last: ContainerStatus | None, verdicts: Mapping[str, Verdict]) -> bool:
    if last is None:
        return False
    if container.kind == SIDECAR:
        return last.state == runtime_status.RUNNING and verdicts.get(last.id, FINE).started
    return last.state == runtime_status.EXITED and last.exit_code == 0


def _to_kill(
    spec: PodSpec, status: PodStatus, newest: Mapping[str, ContainerStatus], verdicts: Mapping[str, Verdict]
) -> tuple[Kill, ...]:
    """Return live containers that must end: of another sandbox, not in the spec, changed, duplicate or unknown."""
    known = {c.name: c for c in (*spec.containers, *spec.ephemeral)}
    kill: list[Kill] = []
    for container in runtime_status.live(status):
        reason = _kill_reason(container, known.get(container.name), newest.get(container.name))
        verdict = verdicts.get(container.id, FINE)
        if reason or verdict.fault:
            kill.append(_kill(container, reason or verdict.fault, verdict.grace))
    return tuple(kill)


def _kill_reason(container: ContainerStatus, spec: ContainerSpec | None, newest: ContainerStatus | None) -> str:
    if spec is None:
        return f"Container {container.name} is not part of the pod"
    if newest is None or newest.id != container.id:
        return f"Container {container.name} is a leftover of an earlier start"
    if container.state == runtime_status.UNKNOWN:
        return f"Container {container.name} is in an unknown state, try killing it before restart"
    if container.spec_hash and container.spec_hash != spec.hash:
        return f"Container {container.name} definition changed, will be restarted"
    return ""


def _kill(container: ContainerStatus, message: str, grace: int = 0) -> Kill:
    return Kill(id=container.id, name=container.name, message=message, grace=grace)


def _removable(status: PodStatus) -> tuple[str, ...]:
    dead: list[str] = []
    for attempts in runtime_status.by_name(status).values():
        dead.extend(c.id for c in attempts[RETAINED_ATTEMPTS:] if c.state == runtime_status.EXITED)
    return tuple(dead)
