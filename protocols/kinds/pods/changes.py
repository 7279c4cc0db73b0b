"""Changes of a pod's spec that an update may make. Messages equal upstream's."""

from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, items

REST = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
GRACE = "terminationGracePeriodSeconds"
MAX_DEADLINE = 2**31 - 1
CONTAINERS = ("containers", "initContainers")
MUTABLE = ("tolerations", "activeDeadlineSeconds", "schedulingGates")
NODE_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
TERM_FIELDS = ("matchExpressions", "matchFields")


def spec_change_causes(new: Object, old: Object) -> list[Cause]:
    """Allow changes to images, a shorter deadline, added tolerations and removed scheduling gates only."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if after == before:
        return []
    added = [field for field in CONTAINERS if len(items(after, field)) != len(items(before, field))]
    if added:
        return [forbidden(f"spec.{added[0]}", "pod updates may not add or remove containers")]
    causes = _deadline_causes(after, before) + _gate_causes(after, before)
    causes += _toleration_causes(items(after, "tolerations"), items(before, "tolerations"))
    gated = bool(before.get("schedulingGates"))
    if gated:
        causes += _selector_causes(after, before) + _term_causes(after, before)
    frozen = _frozen(before, gated)
    if (before.get(GRACE) or 0) < 0 and after.get(GRACE) == 1:
        frozen[GRACE] = 1
    if _frozen(after, gated) != frozen:
        causes.append(forbidden("spec", REST))
    return causes


def _frozen(spec: Object, gated: bool) -> Object:
    kept = {key: value for key, value in spec.items() if key not in MUTABLE}
    for field in CONTAINERS:
        if field in kept:
            kept[field] = [{k: v for k, v in container.items() if k != "image"} for container in items(spec, field)]
    if gated:
        kept.pop("nodeSelector", None)
        kept["affinity"] = _other_affinity(kept.get("affinity"))
    return kept


def _other_affinity(affinity: Any) -> Object:
    """Return the affinity without the node affinity, which has rules of its own."""
    return {key: value for key, value in (affinity or {}).items() if key != "nodeAffinity"}


def _deadline_causes(new: Object, old: Object) -> list[Cause]:
    field = "spec.activeDeadlineSeconds"
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if after is None:
        return [] if before is None else [invalid(field, None, "must not update from a positive integer to nil value")]
    if after < 0 or after > MAX_DEADLINE:
        return [invalid(field, after, f"must be between 0 and {MAX_DEADLINE}, inclusive")]
    if before is not None and after > before:
        return [invalid(field, after, "must be less than or equal to previous value")]
    return []


def _toleration_causes(new: list[Object], old: list[Object]) -> list[Cause]:
    """Allow additions, and other seconds of a toleration that has some."""
    now = set(map(_key, new))
    if now.issuperset(map(_key, old)):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden("spec.tolerations", text)]


def _key(toleration: Object) -> frozenset[tuple[str, Any]]:
    return frozenset((key, value) for key, value in toleration.items() if key != "tolerationSeconds" and value)


def _gate_causes(new: Object, old: Object) -> list[Cause]:
    known = {gate.get("name") or "" for gate in items(old, "schedulingGates")}
    path, text = "spec.schedulingGates", "only deletion is allowed, but found new scheduling gate '{}'"
    return [
        forbidden(f"{path}[{index}].name", text.format(gate.get("name") or ""))
        for index, gate in enumerate(items(new, "schedulingGates"))
        if (gate.get("name") or "") not in known
    ]


def _selector_causes(new: Object, old: Object) -> list[Cause]:
    after, before = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if all(after.get(key) == value for key, value in before.items()):
        return []
    text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid("spec.nodeSelector", after, text)]


def _term_causes(new: Object, old: Object) -> list[Cause]:
    """Allow additions to the requirements of each term of the node affinity."""
    path = f"spec.{'.'.join(NODE_TERMS)}"
    before, after = at(old, *NODE_TERMS) or [], at(new, *NODE_TERMS) or []
    if not before:
        return []
    if len(before) != len(after):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, after, text)]
    text = "only additions are allowed (no mutations or deletions)"
    pairs = enumerate(zip(before, after, strict=True))
    return [invalid(f"{path}[{index}]", term, text) for index, (was, term) in pairs if not _extends(term, was)]


def _extends(term: Object, was: Object) -> bool:
    """Return True if only requirements were added. An empty term selects no node: a requirement would widen it."""
    if not any(map(was.get, TERM_FIELDS)):
        return not any(map(term.get, TERM_FIELDS))
    return all((term.get(field) or [])[: len(was.get(field) or [])] == (was.get(field) or []) for field in TERM_FIELDS)
