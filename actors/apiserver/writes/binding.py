"""POST pods/NAME/binding: the scheduler's word, the one way a pod's node is set."""

from typing import Any

from actors.apiserver.api.errors.answers import BadRequest, Conflict
from actors.apiserver.api.errors.causes import invalid_object, required, unsupported
from actors.apiserver.api.object_errors import conflict
from actors.apiserver.api.objects.clock import now
from actors.apiserver.api.objects.mirror import MIRROR, is_mirror
from actors.apiserver.api.objects.paths import Obj, items
from actors.apiserver.api.target import Target
from actors.apiserver.writes.metadata import check_kind, check_metadata


def bound(target: Target, binding: Obj, pod: Obj) -> Obj:
    """The pod on its node. Raises Conflict when it is bound, leaving or gated."""
    _check(target, binding)
    wanted, metadata = binding["metadata"], pod["metadata"]
    for field in ("uid", "resourceVersion"):
        if wanted.get(field) and wanted[field] != metadata.get(field):
            raise conflict(target.resource, target.name)
    spec = pod.setdefault("spec", {})
    if metadata.get("deletionTimestamp"):
        raise _refused(target, f"pod {target.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _refused(target, f'pod {target.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refused(target, f"pod {target.name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    if is_mirror(binding):
        raise BadRequest(f"a binding may not set the annotation {MIRROR}: mirror pods are created on their node")
    if wanted.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **wanted["annotations"]}
    _set_scheduled(pod)
    return pod


def _check(target: Target, binding: Obj) -> None:
    check_kind(binding, "Binding", "v1")
    metadata = check_metadata(binding)
    if metadata.get("name") and metadata["name"] != target.name:
        text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        raise BadRequest(text)
    node: Any = binding.get("target")
    causes = []
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or not node["name"]:
        causes.append(required("target.name"))
    elif node.get("kind") not in (None, "", "Node"):
        causes.append(unsupported("target.kind", node["kind"], ("Node", "<empty>")))
    if causes:
        raise invalid_object("Binding", "", target.name, causes)


def _set_scheduled(pod: Obj) -> None:
    status = pod.setdefault("status", {})
    others = [c for c in items(status, "conditions") if c.get("type") != "PodScheduled"]
    mine = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
    status["conditions"] = [*others, mine]


def _refused(target: Target, text: str) -> Conflict:
    message = f'Operation cannot be fulfilled on pods/binding "{target.name}": {text}'
    return Conflict(message, {"name": target.name, "kind": "pods/binding"})
