"""Compute the next steps for a pod in the runtime: compute_actions(spec, status) -> Plan. Pure.

Invariants:
- A plan never starts a container while another one of that name may still run.
- The kill of a container decides whether it starts again, its exit code does not.
"""

from collections.abc import Collection, Mapping

import msgspec

from protocols.lifecycle.pods import runtime_status
from protocols.lifecycle.pods.probes import ProbeVerdict
from protocols.lifecycle.pods.types import (
    NEVER,
    SIDECAR,
    BackoffEntry,
    ContainerSpec,
    PodActions,
    PodSpec,
    Start,
    Waiting,
)
from protocols.lifecycle.restarts import restart_all
from protocols.lifecycle.restarts.kills import FINE, containers_to_kill, stop_all
from protocols.lifecycle.restarts.policy import Restarts, own_policy
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus

CREATING = "ContainerCreating"
RETAINED_ATTEMPTS = 2
"""Runs retained per container: the newest, and the previous one (lastState and `logs --previous`)."""


def compute_actions(
    spec: PodSpec,
    status: PodStatus,
    backoffs: Mapping[str, BackoffEntry],
    now_ns: int,
    counts: Mapping[str, int] | None = None,
    verdicts: Mapping[str, ProbeVerdict] | None = None,
    replaced: Collection[str] = (),
) -> PodActions:
    """Return the next steps for a pod that should run.

    `verdicts` by container id. `counts`: restart counts in the API, for containers that the runtime has forgotten.
    `replaced`: ids of containers that were killed with `Kill.restart`.
    """
    if restart_all.is_due(spec, status):
        return restart_all.plan_restart(spec, status)
    restarts = Restarts(spec, status, backoffs, now_ns, counts or {}, replaced)
    sandbox = runtime_status.current_sandbox(status)
    if sandbox is None:
        return _without_sandbox(spec, status, restarts)
    return _in_sandbox(spec, status, sandbox, restarts, verdicts or {})


def teardown(status: PodStatus) -> tuple[str, ...]:
    """Return the sandboxes to stop once no container runs."""
    return tuple(s.id for s in status.sandboxes if s.ready)


def _without_sandbox(spec: PodSpec, status: PodStatus, restarts: Restarts) -> PodActions:
    running = runtime_status.live(status)
    stop = teardown(status)
    if running or stop:  # everything of the old sandbox ends first; a newer status decides on the next one
        return PodActions(kill=stop_all(spec, running), stop_sandboxes=stop)
    never = spec.restart_policy == NEVER and not any(own_policy(c) for c in spec.apps)
    if never and status.sandboxes and status.containers:
        return PodActions()
    if not any(restarts.should_run(c) for c in spec.apps):
        return PodActions()
    start = _next(spec, {}, restarts, {})
    attempt = status.sandboxes[0].attempt + 1 if status.sandboxes else 0
    return PodActions(
        create_sandbox=attempt,
        start=start,
        waiting=restarts.waiting,
        restarting=frozenset(restarts.restarting),
        wake_ns=restarts.wake_ns,
    )


def _in_sandbox(
    spec: PodSpec, status: PodStatus, sandbox: SandboxStatus, restarts: Restarts, verdicts: Mapping[str, ProbeVerdict]
) -> PodActions:
    newest: dict[str, ContainerStatus] = {}
    for container in status.containers:
        if container.sandbox_id == sandbox.id:
            newest.setdefault(container.name, container)
    kill = containers_to_kill(spec, status, newest, verdicts)
    blocked = {k.name for k in kill}
    steps = (*_ephemeral(spec, newest, restarts), *_next(spec, newest, restarts, verdicts))
    start = tuple(s for s in steps if s.name not in blocked)
    return PodActions(
        kill=kill,
        sandbox=sandbox.id,
        start=start,
        remove=_removable(status),
        remove_sandboxes=_emptied(status, sandbox),
        waiting=restarts.waiting,
        restarting=frozenset(restarts.restarting),
        wake_ns=restarts.wake_ns,
    )


def _next(
    spec: PodSpec,
    newest: Mapping[str, ContainerStatus],
    restarts: Restarts,
    verdicts: Mapping[str, ProbeVerdict],
) -> tuple[Start, ...]:
    """Start init containers one by one, then all apps; once an app was started, only sidecars and apps restart."""
    if any(c.name in newest for c in spec.apps):
        candidates, over = [c for c in spec.inits if c.kind == SIDECAR], True
    else:
        candidates, over = _init_phase(spec, newest, verdicts)
    steps = (restarts.decide(c, newest.get(c.name)) for c in (*candidates, *(spec.apps if over else ())))
    return tuple(s for s in steps if s is not None)


def _ephemeral(spec: PodSpec, newest: Mapping[str, ContainerStatus], restarts: Restarts) -> tuple[Start, ...]:
    """Start each ephemeral container once, after its target runs."""
    steps = []
    for container in spec.ephemeral:
        target, step = container.target, restarts.once(container)
        seen = newest.get(target)
        if step is not None and target and (seen is None or seen.state != runtime_status.RUNNING):
            restarts.waiting[container.name] = Waiting(CREATING, f"waits for container {target} to run")
        elif step is not None:
            steps.append(msgspec.structs.replace(step, target=seen.id if seen else ""))
    return tuple(steps)


def _init_phase(
    spec: PodSpec, newest: Mapping[str, ContainerStatus], verdicts: Mapping[str, ProbeVerdict]
) -> tuple[list[ContainerSpec], bool]:
    """Return the containers that the init phase may start, and True once it is over.

    The last init container that ever ran decides: those before it are done, even if the runtime has lost their runs.
    """
    ran = [index for index, container in enumerate(spec.inits) if container.name in newest]
    last = ran[-1] if ran else -1
    candidates = [c for c in spec.inits[: max(0, last)] if c.kind == SIDECAR]
    if last >= 0 and not _passed(spec.inits[last], newest[spec.inits[last].name], verdicts):
        return [*candidates, spec.inits[last]], False
    return [*candidates, *spec.inits[last + 1 : last + 2]], last + 1 == len(spec.inits)


def _passed(container: ContainerSpec, last: ContainerStatus, verdicts: Mapping[str, ProbeVerdict]) -> bool:
    if container.kind == SIDECAR:
        return last.state == runtime_status.RUNNING and verdicts.get(last.id, FINE).started
    return last.state == runtime_status.EXITED and last.exit_code == 0


def _emptied(status: PodStatus, current: SandboxStatus) -> tuple[str, ...]:
    used = {current.id, *(container.sandbox_id for container in status.containers)}
    return tuple(sandbox.id for sandbox in status.sandboxes if sandbox.id not in used)


def _removable(status: PodStatus) -> tuple[str, ...]:
    dead: list[str] = []
    for attempts in runtime_status.by_name(status).values():
        dead.extend(c.id for c in attempts[RETAINED_ATTEMPTS:] if c.state == runtime_status.EXITED)
    return tuple(dead)
