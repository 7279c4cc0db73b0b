"""Update objects: check a new object against the stored one. Also bind pods, which sets their node."""

from collections.abc import Callable
from typing import Any

from actors.apiserver.api.errors import BadRequest, Conflict, invalid_object
from actors.apiserver.api.request.target import Target, conflict
from actors.apiserver.writes.metadata import carry_over, check_body, check_kind, check_metadata
from actors.apiserver.writes.owners import Owners, set_owners, stored_owners
from protocols.kinds.check.causes import Cause, invalid, required, unsupported
from protocols.kinds.served.object_meta import finalizer_causes, metadata_causes
from protocols.kinds.shapes.clean import complete
from protocols.kube.meta import Object
from protocols.kube.objects import MIRROR, at, fresh_copy, is_mirror, items
from protocols.kube.times import now

WHOLE = ("", "ephemeralcontainers", "resize")
"""Subresources whose body is the whole object, and which upstream tracks as such."""
PARTLY = (*WHOLE, "status")
"""Subresources whose writes are tracked before the strategy: what it sets has no owner."""


def updated(target: Target, new: Object, old: Object, patching: bool = False, owners: Owners = stored_owners) -> Object:
    """Return the object to store. Raises BadRequest, Conflict, Invalid."""
    if not patching and not at(new, "metadata", "name"):
        raise unnamed(target)
    sent = check_body(new, target)
    _check_identity(target, new, old, patching)
    causes = carry_over(new, old)
    if target.subresource in WHOLE:
        target.resource.strategy.default(new)
    elif target.subresource == "status":
        target.resource.strategy.default_status(new)
    entries = owners(new, old, sent) if target.subresource in PARTLY else None
    causes += _prepare(target, new, old)
    complete(new, target.resource.shape)
    custom = target.resource.custom is not None
    causes = metadata_causes(new, target.resource) + finalizer_causes(new, old, custom) + causes
    if causes:
        fault = invalid_object(target.resource.kind, target.resource.group, target.name, causes)
        fault.rejected = new
        raise fault
    _count_generation(target, new, old)
    set_owners(new, owners(new, old, sent) if entries is None else entries)
    return new


def amended(target: Target, mutated: Object, new: Object, old: Object) -> Object:
    """Return the object that an update stores, with what admission changed of `new`, which nobody owns.

    Raises as `updated`.
    """
    entries = new["metadata"].get("managedFields") or []
    return updated(target, mutated, fresh_copy(old), patching=True, owners=lambda obj, before, sent: entries)


def unnamed(target: Target) -> BadRequest:
    """Return the 400 for a body without a name."""
    text = "was undeterminable: name must be provided"
    return BadRequest(f"the name of the object ({target.name} based on URL) {text}")


def _prepare(target: Target, new: Object, old: Object) -> list[Cause]:
    strategy = target.resource.strategy
    if target.subresource == "status":
        strategy.prepare_status(new, old)
        return strategy.validate_status(new, old)
    if target.subresource in strategy.parts:
        return strategy.part(target.subresource, new, old)
    if target.subresource == "finalize":
        strategy.prepare_finalize(new, old)
        return strategy.validate_finalize(new)
    strategy.prepare_update(new, old)
    return strategy.update_causes(new, old)


def _check_identity(target: Target, new: Object, old: Object, patching: bool) -> None:
    resource, metadata, stored = target.resource, new["metadata"], old["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != stored.get("uid") and patching:
        cause = invalid("metadata.uid", uid, "field is immutable")
        raise invalid_object(resource.kind, resource.group, target.name, [cause])
    if uid and uid != stored.get("uid"):
        raise _unmet(target, "UID", uid, stored["uid"])
    version = "" if version == "0" else version
    if version and version != stored["resourceVersion"]:
        raise conflict(resource, target.name)
    if not version and resource.versioned_update:
        cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid_object(resource.kind, resource.group, target.name, [cause])
    metadata["resourceVersion"] = stored["resourceVersion"]


def _unmet(target: Target, name: str, wanted: str, stored: str) -> Conflict:
    """Return the 409 for a precondition on metadata, with upstream's text."""
    text = (
        f"StorageError: invalid object, Code: 4, Key: {target.resource.storage_prefix}{target.key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {name} in precondition: {wanted}, "
        f"{name} in object meta: {stored}"
    )
    return conflict(target.resource, target.name, text)


def _count_generation(target: Target, new: Object, old: Object) -> None:
    strategy = target.resource.strategy
    counts = strategy.has_generation and target.subresource != "status"
    if counts and strategy.bumps_generation(new, old):
        new["metadata"]["generation"] = int(old["metadata"].get("generation") or 0) + 1


def replace_mutation(target: Target, body: Object, owners: Owners) -> Callable[[Object], Object]:
    """Return the mutation of a PUT: the body replaces whatever is stored, as often as it is tried."""
    return lambda old: updated(target, fresh_copy(body), old, owners=owners)


def recreated(target: Target, body: Object) -> Object:
    """Return the body of a PUT that found nothing, as a new object. Raises Conflict if it means one that is gone."""
    if uid := at(body, "metadata", "uid"):
        raise _unmet(target, "UID", uid, "")
    new = fresh_copy(body)
    if isinstance(new.get("metadata"), dict):
        new["metadata"].pop("resourceVersion", None)
    return new


def bound(target: Target, binding: Object, pod: Object) -> Object:
    """Return the pod with the node of a checked binding.

    Raises Conflict if it is bound, terminating or gated, and BadRequest for a binding that sets the mirror annotation.
    """
    wanted, metadata = binding["metadata"], pod["metadata"]
    for field, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata.get(field):
            raise _unmet(target, name, wanted[field], metadata.get(field))
    spec = pod.setdefault("spec", {})
    if metadata.get("deletionTimestamp"):
        raise _binding_conflict(target, f"pod {target.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _binding_conflict(target, f'pod {target.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _binding_conflict(target, f"pod {target.name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    (pod.get("status") or {}).pop("nominatedNodeName", None)
    if is_mirror(binding):
        raise BadRequest(f"a binding may not set the annotation {MIRROR}: mirror pods are created on their node")
    for field in ("annotations", "labels"):
        if wanted.get(field):
            metadata[field] = {**(metadata.get(field) or {}), **wanted[field]}
    set_condition(pod, "PodScheduled")
    return pod


def check_binding(target: Target, binding: Object) -> None:
    """Check a binding before its pod is read. Raises BadRequest, Invalid."""
    check_kind(binding, "Binding", "v1")
    metadata = check_metadata(binding)
    if metadata.get("name") != target.name:
        raise BadRequest("name in URL does not match name in Binding object")
    node: Any = binding.get("target")
    causes = []
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or not node["name"]:
        causes.append(required("target.name"))
    elif node.get("kind") not in (None, "", "Node"):
        causes.append(unsupported("target.kind", node["kind"], ("Node", "<empty>")))
    if causes:
        raise invalid_object("Binding", "", target.name, causes)


def set_condition(pod: Object, kind: str, **more: str) -> None:
    """Set a condition of a pod to True, from now on."""
    status = pod.setdefault("status", {})
    others = [condition for condition in items(status, "conditions") if condition.get("type") != kind]
    mine = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now(), **more}
    status["conditions"] = [*others, mine]


def _binding_conflict(target: Target, text: str) -> Conflict:
    message = f'Operation cannot be fulfilled on pods/binding "{target.name}": {text}'
    return Conflict(message, {"name": target.name, "kind": "pods/binding"})
