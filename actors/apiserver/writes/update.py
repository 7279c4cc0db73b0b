"""Update objects: check a new object against the stored one. Also bind pods, which sets their node."""

from collections.abc import Callable
from typing import Any

from actors.apiserver.api.causes import Cause, invalid, invalid_object, required, unsupported
from actors.apiserver.api.errors import BadRequest, Conflict
from actors.apiserver.api.objects import MIRROR, at, is_mirror, items, now
from actors.apiserver.api.stored import fresh_copy
from actors.apiserver.api.target import Target, conflict
from actors.apiserver.writes.fields import complete
from actors.apiserver.writes.metadata import (
    carry_over,
    check_body,
    check_kind,
    check_metadata,
    finalizer_causes,
    metadata_causes,
)
from actors.apiserver.writes.owners import Owners, set_owners, stored_owners
from protocols.kube.meta import Object

PARTLY = ("", "status")
"""Subresources whose writes are tracked before the strategy changes them."""


def updated(target: Target, new: Object, old: Object, patching: bool = False, owners: Owners = stored_owners) -> Object:
    """Return the object to store. Raises BadRequest, Conflict, Invalid."""
    if not patching and not at(new, "metadata", "name"):
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    sent = check_body(new, target)
    _check_identity(target, new, old, patching)
    carry_over(new, old)
    if apart := target.subresource not in PARTLY:
        causes = _prepare(target, new, old)
    else:  # what the strategy sets has no owner
        if not target.subresource:
            target.resource.strategy.default(new)
        entries = owners(new, old, sent)
        causes = _prepare(target, new, old)
    complete(new, target.resource.shape)
    causes = metadata_causes(new, target.resource) + finalizer_causes(new, old) + causes
    if causes:
        raise invalid_object(target.resource.kind, target.resource.group, target.name, causes)
    _count_generation(target, new, old)
    set_owners(new, owners(new, old, sent) if apart else entries)
    return new


def _prepare(target: Target, new: Object, old: Object) -> list[Cause]:
    strategy = target.resource.strategy
    if target.subresource == "status":
        strategy.prepare_status(new, old)
        return strategy.validate_status(new, old)
    if target.subresource in strategy.parts:
        return strategy.part(target.subresource, new, old)
    if target.subresource == "finalize":
        strategy.prepare_finalize(new, old)
        return []
    strategy.prepare_update(new, old)
    return strategy.validate_update(new, old)


def _check_identity(target: Target, new: Object, old: Object, patching: bool) -> None:
    resource, metadata, stored = target.resource, new["metadata"], old["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != stored.get("uid"):
        text = (
            f"StorageError: invalid object, Code: 4, Key: {resource.storage_prefix}{target.key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored['uid']}"
        )
        raise conflict(resource, target.name, text)
    if version and version != stored["resourceVersion"]:
        raise conflict(resource, target.name)
    if not version and resource.versioned_update and not patching:
        cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid_object(resource.kind, resource.group, target.name, [cause])
    metadata["resourceVersion"] = stored["resourceVersion"]


def _count_generation(target: Target, new: Object, old: Object) -> None:
    strategy = target.resource.strategy
    if strategy.has_generation and strategy.bumps_generation(new, old):
        new["metadata"]["generation"] = int(old["metadata"].get("generation") or 0) + 1


def replace_mutation(target: Target, body: Object, owners: Owners) -> Callable[[Object], Object]:
    return lambda old: updated(target, fresh_copy(body), old, owners=owners)


def bound(target: Target, binding: Object, pod: Object) -> Object:
    """Return the pod with the node of a binding. Raises Conflict if it is bound, terminating or gated."""
    _check_binding(target, binding)
    wanted, metadata = binding["metadata"], pod["metadata"]
    for field in ("uid", "resourceVersion"):
        if wanted.get(field) and wanted[field] != metadata.get(field):
            raise conflict(target.resource, target.name)
    spec = pod.setdefault("spec", {})
    if metadata.get("deletionTimestamp"):
        raise _binding_conflict(target, f"pod {target.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _binding_conflict(target, f'pod {target.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _binding_conflict(target, f"pod {target.name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    if is_mirror(binding):
        raise BadRequest(f"a binding may not set the annotation {MIRROR}: mirror pods are created on their node")
    if wanted.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **wanted["annotations"]}
    _set_scheduled(pod)
    return pod


def _check_binding(target: Target, binding: Object) -> None:
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


def _set_scheduled(pod: Object) -> None:
    status = pod.setdefault("status", {})
    others = [c for c in items(status, "conditions") if c.get("type") != "PodScheduled"]
    mine = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
    status["conditions"] = [*others, mine]


def _binding_conflict(target: Target, text: str) -> Conflict:
    message = f'Operation cannot be fulfilled on pods/binding "{target.name}": {text}'
    return Conflict(message, {"name": target.name, "kind": "pods/binding"})
