"""Facts of pods that several processes ask for, read from plain JSON."""

from collections.abc import Mapping
from typing import Any

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.kube.objects import items

FINISHED = ("Succeeded", "Failed")
"""Phases of a pod that runs no more, and never will."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation: of pods that are in surplus those with the lowest number go first."""


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node that the pod is bound to; "" for none."""
    spec: views.PodSpec | None = pod.get("spec")
    return str(spec.get("nodeName") or "") if isinstance(spec, dict) else ""


def phase_of(pod: Mapping[str, Any]) -> str:
    """Return status.phase; empty before any status was written."""
    status: views.PodStatus | None = pod.get("status")
    return str(status.get("phase") or "") if isinstance(status, dict) else ""


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Return True for a pod whose containers have all ended for good: Succeeded or Failed."""
    return phase_of(pod) in FINISHED


def sidecars_of(pod: Mapping[str, Any]) -> list[Object]:
    """Return the init containers that go on beside the others."""
    return [each for each in items(pod, "spec", "initContainers") if each.get("restartPolicy") == "Always"]
