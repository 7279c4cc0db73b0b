"""Phase and conditions of a pod. Pure.

Podworker's own conditions are computed, those of others are retained; transition times move only with the status.
"""

from collections import Counter
from collections.abc import Mapping

from protocols.kinds import views
from protocols.kube.pods import FINISHED
from protocols.lifecycle.pods.types import INIT, SIDECAR, ContainerSpec, PodSpec, Waiting
from protocols.lifecycle.restarts.policy import may_restart

RESTARTING_ALL = "AllContainersRestarting"
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
OWN = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
    RESTARTING_ALL,
)
PREEMPTED = Waiting("Preempting", "Preempted in order to admit critical pod")
DISRUPTED = {
    "DisruptionTarget": Waiting("TerminationByKubelet", "Pod was preempted by Kubelet to accommodate a critical pod.")
}
"""Condition of a preempted pod. Other writers set it as well: it is retained, not owned."""
PHASE_REASON = {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}


def compute_phase(spec: PodSpec, statuses: dict[str, views.ContainerStatus], final: bool = False) -> str:
    """Return the phase. `statuses` by container name; `final`: the pod was ended on purpose, nothing restarts."""
    apps = Counter(_classify_app(spec, c, statuses.get(c.name)) for c in spec.apps)
    inits = Counter(_classify_init(statuses.get(c.name)) for c in spec.inits if c.kind == INIT)
    if final:
        return SUCCEEDED if apps["succeeded"] == len(spec.apps) and not inits["failed"] else FAILED
    plain = (c for c in spec.inits if c.kind == INIT)
    if any(_ended_for_good(spec, c, statuses.get(c.name)) for c in plain):
        return FAILED
    if inits["unfinished"] or inits["failed"] or apps["waiting"] or apps["unknown"]:
        return PENDING
    if apps["running"] or apps["restarting"]:
        return RUNNING
    if any(may_restart(spec.restart_policy, c, _exit_code(statuses[c.name])) for c in spec.apps):
        return RUNNING
    return FAILED if apps["failed"] else SUCCEEDED


def _ended_for_good(spec: PodSpec, container: ContainerSpec, status: views.ContainerStatus | None) -> bool:
    """Return True for an init container that failed and does not restart. One that waits does."""
    if _classify_init(status) != "failed" or "waiting" in (status or {})["state"]:
        return False
    return not may_restart(spec.restart_policy, container, _exit_code(status or {}))


def _exit_code(status: views.ContainerStatus) -> int:
    state = status["state"].get("terminated") or status["lastState"]["terminated"]
    return int(state.get("exitCode") or 0)


def _classify(status: views.ContainerStatus | None) -> str:
    if status is None:
        return "unknown"
    state = status["state"]
    if "running" in state:
        return "running"
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    if ended is None:
        return "waiting"
    return "succeeded" if ended.get("exitCode") == 0 else "failed"


def _classify_app(spec: PodSpec, container: ContainerSpec, status: views.ContainerStatus | None) -> str:
    """Classify an app container. One that ended for good never waits: if it does, it is about to start again."""
    kind = _classify(status)
    if status is not None and kind in ("succeeded", "failed") and "waiting" in status["state"]:
        return kind if may_restart(spec.restart_policy, container, _exit_code(status)) else "restarting"
    return kind


def _classify_init(status: views.ContainerStatus | None) -> str:
    """Classify an init container. It runs again in a new sandbox, but counts as done while it shows exit code 0."""
    if status is None or "running" in status["state"]:
        return "unfinished"
    kind = _classify(status)
    return {"succeeded": "done", "failed": "failed"}.get(kind, "unfinished")


def compute_conditions(
    spec: PodSpec,
    statuses: dict[str, views.ContainerStatus],
    phase: str,
    sandbox_ready: bool,
    before: views.PodStatus,
    now: str,
    more: Mapping[str, Waiting] | None = None,
    restarting_all: bool | None = None,
) -> list[views.PodCondition]:
    """Return all conditions of the pod.

    `before`: the status in the API. `now`: time of changes. `more`: additional conditions that are True.
    `restarting_all`: all containers restart in place; None if no rule of the pod could cause that.
    """
    old = {c.get("type", ""): c for c in before.get("conditions") or ()}
    containers = _containers_ready(spec, statuses, phase)
    computed = [
        _condition("PodReadyToStartContainers", sandbox_ready),
        _initialized(spec, statuses, phase, old),
        _ready(spec, containers, old),
        containers,
        _condition("PodScheduled", True),
    ]
    computed += [_condition(kind, True, why.reason, why.message) for kind, why in (more or {}).items()]
    if restarting_all is not None:
        computed.append(_restarting_all(restarting_all, phase))
    ours = [_timed(condition, old.get(condition["type"]), now) for condition in computed]
    if generation := generation_of(spec):
        for condition in ours:
            condition["observedGeneration"] = generation
    return ours + [c for kind, c in old.items() if kind not in OWN and kind not in (more or {})]


def generation_of(spec: PodSpec) -> int:
    """Return the generation that the status, and each condition, is computed from; 0 for none."""
    return (spec.raw.get("metadata") or {}).get("generation") or 0


def _condition(kind: str, status: bool, reason: str = "", message: str = "") -> views.PodCondition:
    condition: views.PodCondition = {"type": kind, "status": "True" if status else "False"}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _timed(condition: views.PodCondition, before: views.PodCondition | None, now: str) -> views.PodCondition:
    same = before is not None and before.get("status") == condition["status"]
    since = (before or {}).get("lastTransitionTime") if same else None
    return {**condition, "lastProbeTime": None, "lastTransitionTime": since or now}


def _restarting_all(restarting: bool, phase: str) -> views.PodCondition:
    if restarting and phase not in FINISHED:
        text = "container exited with restart policy rule"
        return _condition(RESTARTING_ALL, True, "RestartAllContainersStarted", text)
    return _condition(RESTARTING_ALL, False, PHASE_REASON.get(phase, ""))


def _initialized(
    spec: PodSpec, statuses: dict[str, views.ContainerStatus], phase: str, old: Mapping[str, views.PodCondition]
) -> views.PodCondition:
    """Return the condition. A pod that was initialized stays so while sidecars or all containers start again."""
    missing = [c.name for c in spec.inits if not _init_done(c.kind, statuses.get(c.name))]
    if phase == SUCCEEDED:
        return _condition("Initialized", True, "PodCompleted")
    if not missing or old.get("Initialized", {}).get("status") == "True":
        return _condition("Initialized", True)
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", message)


def _init_done(kind: str, status: views.ContainerStatus | None) -> bool:
    if status is None:
        return False
    return bool(status.get("started")) if kind == SIDECAR else bool(status.get("ready"))


def _containers_ready(spec: PodSpec, statuses: dict[str, views.ContainerStatus], phase: str) -> views.PodCondition:
    if phase in PHASE_REASON:
        return _condition("ContainersReady", False, PHASE_REASON[phase])
    unready = [c.name for c in spec.containers if c.kind != INIT and not (statuses.get(c.name) or {}).get("ready")]
    if not unready:
        return _condition("ContainersReady", True)
    message = f"containers with unready status: [{' '.join(unready)}]"
    return _condition("ContainersReady", False, "ContainersNotReady", message)


def _ready(spec: PodSpec, containers: views.PodCondition, old: dict[str, views.PodCondition]) -> views.PodCondition:
    if containers["status"] != "True":
        return {**containers, "type": "Ready"}
    gates = [g.get("conditionType", "") for g in (spec.raw.get("spec") or {}).get("readinessGates") or ()]
    closed = [_gate_fault(gate, old.get(gate)) for gate in gates if (old.get(gate) or {}).get("status") != "True"]
    if closed:
        return _condition("Ready", False, "ReadinessGatesNotReady", ", ".join(closed))
    return _condition("Ready", True)


def _gate_fault(gate: str, condition: views.PodCondition | None) -> str:
    """Return why a readiness gate is closed, in upstream's words."""
    if condition is None:
        return f'corresponding condition of pod readiness gate "{gate}" does not exist.'
    return f'the status of pod readiness gate "{gate}" is not "True", but {condition.get("status")}'
