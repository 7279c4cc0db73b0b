"""Scopes of quotas: the pods and claims that a quota applies to."""

from collections.abc import Iterator
from typing import Any

from protocols.kube.meta import Object

TERMINATING, NOT_TERMINATING = "Terminating", "NotTerminating"
BEST_EFFORT, NOT_BEST_EFFORT = "BestEffort", "NotBestEffort"
PRIORITY_CLASS = "PriorityClass"
CROSS_NAMESPACE = "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS = "VolumeAttributesClass"
EXISTS_ONLY = (TERMINATING, NOT_TERMINATING, BEST_EFFORT, NOT_BEST_EFFORT, CROSS_NAMESPACE)
"""Scopes whose only operator is Exists."""
SCOPES = (*EXISTS_ONLY, PRIORITY_CLASS, VOLUME_ATTRIBUTES_CLASS)
COMPUTE = ("cpu", "memory")


def requirements(quota: Object) -> list[Object]:
    """Return the scopes of a quota and the terms of its scope selector, all of which must match."""
    spec = quota.get("spec") or {}
    plain = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*plain, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def pod_matches(term: Object, pod: Object) -> bool:
    """Return True if a pod is in the scope of one term; a scope that is not of pods matches none."""
    spec = pod.get("spec") or {}
    match term.get("scopeName"):
        case "Terminating":
            return _has_deadline(spec)
        case "NotTerminating":
            return not _has_deadline(spec)
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            name = spec.get("priorityClassName")
            return _selects(term, [str(name)] if name else [])
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(spec))
    return False


def claim_matches(term: Object, claim: Object) -> bool:
    """Match a PersistentVolumeClaim by the VolumeAttributesClasses that it has or is changed to."""
    if term.get("scopeName") != VOLUME_ATTRIBUTES_CLASS:
        return False
    status = claim.get("status") or {}
    names = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return _selects(term, [str(name) for name in names if name])


def never_matches(term: Object, obj: Object) -> bool:
    """Matcher of kinds for which no scope is defined."""
    return False


def _selects(term: Object, names: list[str]) -> bool:
    """Apply the operator to the names that an object has."""
    values = term.get("values") or ()
    match term.get("operator"):
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return any(name in values for name in names)
        case "NotIn":
            return not names or any(name not in values for name in names)
    return False


def _has_deadline(spec: Object) -> bool:
    deadline = spec.get("activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _is_best_effort(pod: Object) -> bool:
    quality = (pod.get("status") or {}).get("qosClass")
    if quality:
        return bool(quality == BEST_EFFORT)
    spec = pod.get("spec") or {}
    holders = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    sides = [(holder.get("resources") or {}).get(side) or {} for holder in holders for side in ("requests", "limits")]
    return not any(str(side[name]) != "0" for side in sides for name in COMPUTE if name in side)


def _terms(spec: Object) -> Iterator[Any]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}
