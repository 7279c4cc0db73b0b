"""Pod phase from container statuses (facts: the table of 6.5). Pure."""

from collections import Counter

from actors.podworker.types import ALWAYS, INIT, NEVER, Object, PodSpec

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = (SUCCEEDED, FAILED)


def compute_phase(spec: PodSpec, statuses: dict[str, Object], final: bool = False) -> str:
    """`statuses`: rendered container statuses by name. `final`: the pod was ended on purpose, nothing restarts."""
    apps = Counter(_classify(statuses.get(c.name)) for c in spec.apps)
    inits = Counter(_classify_init(statuses.get(c.name)) for c in spec.inits if c.kind == INIT)
    if final:
        return SUCCEEDED if apps["succeeded"] == len(spec.apps) and not inits["failed"] else FAILED
    if inits["failed"] and spec.restart_policy == NEVER:
        return FAILED
    if inits["unfinished"] or inits["failed"] or apps["waiting"] or apps["unknown"]:
        return PENDING
    if apps["running"]:
        return RUNNING
    return _all_stopped(spec.restart_policy, apps)


def _all_stopped(policy: str, apps: Counter[str]) -> str:
    if policy == ALWAYS:
        return RUNNING
    if not apps["failed"]:
        return SUCCEEDED
    return FAILED if policy == NEVER else RUNNING


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
