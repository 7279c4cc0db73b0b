"""Pod conditions: ours computed, foreign ones kept, transition times only moved when the status changes. Pure."""

from collections.abc import Mapping

from actors.podworker.status.phase import FAILED, SUCCEEDED
from actors.podworker.types import INIT, SIDECAR, Object, PodSpec, Waiting

OWN = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
)
PHASE_REASON = {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}


def compute_conditions(
    spec: PodSpec,
    statuses: dict[str, Object],
    phase: str,
    sandbox_ready: bool,
    before: Object,
    now: str,
    more: Mapping[str, Waiting] | None = None,
) -> list[Object]:
    """The whole list as it should stand in the API; `before`: the status shown so far, `now`: when changes happened.
    `more`: others that are true now."""
    old = {c.get("type", ""): c for c in before.get("conditions") or ()}
    containers = _containers_ready(spec, statuses, phase)
    wanted = [
        _condition("PodReadyToStartContainers", sandbox_ready),
        _initialized(spec, statuses, phase),
        _ready(spec, containers, old),
        containers,
        _condition("PodScheduled", True),
    ]
    wanted += [_condition(kind, True, why.reason, why.message) for kind, why in (more or {}).items()]
    ours = [_timed(condition, old.get(condition["type"]), now) for condition in wanted]
    return ours + [c for kind, c in old.items() if kind not in OWN]


def _condition(kind: str, status: bool, reason: str = "", message: str = "") -> Object:
    condition: Object = {"type": kind, "status": "True" if status else "False"}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _timed(condition: Object, before: Object | None, now: str) -> Object:
    same = before is not None and before.get("status") == condition["status"]
    since = (before or {}).get("lastTransitionTime") if same else None
    return {**condition, "lastProbeTime": None, "lastTransitionTime": since or now}


def _initialized(spec: PodSpec, statuses: dict[str, Object], phase: str) -> Object:
    missing = [c.name for c in spec.inits if not _init_done(c.kind, statuses.get(c.name))]
    if phase == SUCCEEDED:
        return _condition("Initialized", True, "PodCompleted")
    if not missing:
        return _condition("Initialized", True)
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", message)


def _init_done(kind: str, status: Object | None) -> bool:
    if status is None:
        return False
    return bool(status.get("started")) if kind == SIDECAR else bool(status.get("ready"))


def _containers_ready(spec: PodSpec, statuses: dict[str, Object], phase: str) -> Object:
    if phase in PHASE_REASON:
        return _condition("ContainersReady", False, PHASE_REASON[phase])
    unready = [c.name for c in spec.containers if c.kind != INIT and not (statuses.get(c.name) or {}).get("ready")]
    if not unready:
        return _condition("ContainersReady", True)
    message = f"containers with unready status: [{' '.join(unready)}]"
    return _condition("ContainersReady", False, "ContainersNotReady", message)


def _ready(spec: PodSpec, containers: Object, old: dict[str, Object]) -> Object:
    if containers["status"] != "True":
        return {**containers, "type": "Ready"}
    gates = [g.get("conditionType", "") for g in (spec.raw.get("spec") or {}).get("readinessGates") or ()]
    closed = [gate for gate in gates if (old.get(gate) or {}).get("status") != "True"]
    if closed:
        message = f"readiness gates that are not True: {', '.join(closed)}"
        return _condition("Ready", False, "ReadinessGatesNotReady", message)
    return _condition("Ready", True)
