"""Admission of pods: their RuntimeClass, the labels of their node, and what mirror pods may not refer to. Pure.

Clients match on the texts.
"""

from actors.apiserver.authorization.node_graph import references
from actors.apiserver.writes.admission.rule import PodRule, Rule, Step
from actors.apiserver.writes.change import CREATE, Change
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, is_mirror, items, text
from protocols.kube.quantity import Quantity, parse_quantity

TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class RuntimeClasses(PodRule):
    """Set overhead and scheduling of a new pod by its RuntimeClass."""

    async def complete(self, change: Change, pod: Object) -> None:
        find = self.given.runtime_class
        if find is not None:
            name = _names_class(pod)
            change.reject(apply_class(pod, await find(name) if name else None))


class TopologyLabels(Rule):
    """Copy zone and region of its node to a pod that is created on it, or to the binding that assigns it."""

    step, covers = Step.COMPLETE, {"pods": (CREATE,), "pods/binding": (CREATE,)}

    def apply(self, change: Change) -> None:
        target = at(change.sent, "target") or {}
        bound = text(target, "name") if target.get("kind") == "Node" else ""
        node = self.given.nodes(bound or text(change.sent, "spec", "nodeName"))
        labels = at(node, "metadata", "labels") or {}
        if copied := {key: labels[key] for key in TOPOLOGY if key in labels}:
            metadata = change.sent["metadata"]
            metadata["labels"] = {**(metadata.get("labels") or {}), **copied}


class MirrorPods(Rule):
    """Check that a mirror pod refers to nothing that its node must not read."""

    step, covers = Step.CHECK_AUTHOR, {"pods": (CREATE,)}

    def apply(self, change: Change) -> None:
        if is_mirror(change.sent):
            change.reject(mirror_fault(change.sent))


def _names_class(pod: Object) -> str:
    name = at(pod, "spec", "runtimeClassName")
    return name if isinstance(name, str) else ""


def apply_class(pod: Object, runtime_class: Object | None) -> str:
    """Apply the class `runtime_class` to a pod. Return why the pod is rejected; empty if it is not.

    It is None if the pod names no class, or one that does not exist.
    """
    name = _names_class(pod)
    if name and runtime_class is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    return _overhead(pod["spec"], runtime_class or {}) or _scheduling(pod["spec"], runtime_class or {})


def _overhead(spec: Object, runtime_class: Object) -> str:
    given, fixed = spec.get("overhead"), at(runtime_class, "overhead", "podFixed")
    if not isinstance(fixed, dict) or not fixed:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead" if given else ""
    if given and _amounts(given) != _amounts(fixed):
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    spec["overhead"] = dict(fixed)
    return ""


def _amounts(resources: object) -> dict[str, Quantity] | None:
    """Return the quantities; None if some are invalid, which validation reports."""
    try:
        return {str(k): parse_quantity(str(v)) for k, v in resources.items()} if isinstance(resources, dict) else None
    except QuantityInvalid:
        return None


def _scheduling(spec: Object, runtime_class: Object) -> str:
    requested = spec.get("nodeSelector")
    selector: dict[str, object] = requested if isinstance(requested, dict) else {}
    for key, value in (at(runtime_class, "scheduling", "nodeSelector") or {}).items():
        own = selector.get(key, value)
        if own != value:
            where = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            return f"conflict: {where}"
        selector = spec["nodeSelector"] = {**selector, key: value}
    given = items(spec, "tolerations")
    if added := [
        toleration for toleration in items(runtime_class, "scheduling", "tolerations") if toleration not in given
    ]:
        spec["tolerations"] = [*given, *added]
    return ""


def mirror_fault(pod: Object) -> str:
    """Return why this mirror pod is rejected: it may not refer to accounts, secrets or tokens."""
    if text(pod, "spec", "serviceAccountName") or text(pod, "spec", "serviceAccount"):
        return "a mirror pod may not reference service accounts"
    if references(pod, "secrets"):
        return "a mirror pod may not reference secrets"
    for volume in items(pod, "spec", "volumes"):
        if any(source.get("serviceAccountToken") is not None for source in items(volume, "projected", "sources")):
            return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""
