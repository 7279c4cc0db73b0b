"""Upstream's NodeDeclaredFeatures: what a pod needs of its node that not every agent can do. Pure."""

from protocols.kinds import views

RESTART_ALL = "RestartAllContainersOnContainerExits"
"""The one of upstream's features in `status.declaredFeatures` that a new pod may need."""


def needed_features(spec: views.PodSpec) -> tuple[str, ...]:
    """Return the features that a node must declare to run the pod."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    return (RESTART_ALL,) if any(rule.get("action") == "RestartAllContainers" for rule in rules) else ()
