"""Restart policies: a pod's, over them a container's own, over them its rules about exit codes. Pure."""

from actors.podworker.types import INIT, NEVER, ON_FAILURE, SIDECAR, ContainerSpec, Object


def own_policy(container: ContainerSpec) -> str:
    """Of the container itself; empty: the pod's holds."""
    return "" if container.kind == SIDECAR else str(container.raw.get("restartPolicy") or "")


def policy_of(pod_policy: str, container: ContainerSpec) -> str:
    return own_policy(container) or pod_policy


def may_restart(pod_policy: str, container: ContainerSpec, exit_code: int) -> bool:
    """Sidecars always; init containers until they succeed; apps by their policy. A rule that matches restarts."""
    if container.kind == SIDECAR or any(_matches(rule, exit_code) for rule in _rules(container)):
        return True
    policy = policy_of(pod_policy, container)
    if policy == NEVER:
        return False
    return not (exit_code == 0 and (policy == ON_FAILURE or container.kind == INIT))


def _rules(container: ContainerSpec) -> list[Object]:
    found: list[Object] = container.raw.get("restartPolicyRules") or []
    return [rule for rule in found if rule.get("action") == "Restart"]


def _matches(rule: Object, exit_code: int) -> bool:
    wanted = rule.get("exitCodes") or {}
    inside = exit_code in (wanted.get("values") or ())
    return {"In": inside, "NotIn": not inside}.get(str(wanted.get("operator")), False)
