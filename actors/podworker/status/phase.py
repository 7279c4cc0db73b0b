"""Pod phase from container statuses (facts: the table of 6.5). Pure."""

from collections import Counter

from actors.podworker.restarts.policies import may_restart
from actors.podworker.types import INIT, ContainerSpec, Object, PodSpec

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = (SUCCEEDED, FAILED)


def compute_phase(spec: PodSpec, statuses: dict[str, Object], final: bool = False) -> str:
    """`statuses`: rendered container statuses by name. `final`: the pod was ended on purpose, nothing restarts."""
    apps = Counter(_classify(statuses.get(c.name)) for c in spec.apps)
    inits = Counter(_classify_init(statuses.get(c.name)) for c in spec.inits if c.kind == INIT)
    if final:
        return SUCCEEDED if apps["succeeded"] == len(spec.apps) and not inits["failed"] else FAILED
    plain = (c for c in spec.inits if c.kind == INIT)
    if any(_ended_for_good(spec, c, statuses.get(c.name)) for c in plain):
        return FAILED
    if inits["unfinished"] or inits["failed"] or apps["waiting"] or apps["unknown"]:
        return PENDING
    if apps["running"]:
        return RUNNING
    if any(may_restart(spec.restart_policy, c, _exit_code(statuses[c.name])) for c in spec.apps):
        return RUNNING
    return FAILED if apps["failed"] else SUCCEEDED


def _ended_for_good(spec: PodSpec, container: ContainerSpec, status: Object | None) -> bool:
    """An init container that failed, and nobody starts it again."""
    if _classify_init(status) != "failed":
        return False
    return not may_restart(spec.restart_policy, container, _exit_code(status or {}))


def _exit_code(status: Object) -> int:
    """Of the last end, which there is."""
    state = status["state"].get("terminated") or status["lastState"]["terminated"]
    return int(state.get("exitCode") or 0)


def _classify(status: Object | None) -> str:
    if status is None:
        return "unknown"
    state = status["state"]
    if "running" in state:
        return "running"
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    if ended is None:
        return "waiting"
    return "succeeded" if ended.get("exitCode") == 0 else "failed"


def _classify_init(status: Object | None) -> str:
    """A finished init container whose sandbox is gone runs again, but while it shows exit 0 it counts as done."""
    if status is None or "running" in status["state"]:
        return "unfinished"
    kind = _classify(status)
    return {"succeeded": "done", "failed": "failed"}.get(kind, "unfinished")
