"""ObjectMeta of incoming objects: fields the server sets, fields clients may set, and their validation."""

import random

import msgspec

from actors.apiserver.api.errors import BadRequest, invalid_object
from actors.apiserver.api.request.target import Target
from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object, new_uid
from protocols.kube.objects import items, text
from protocols.kube.times import now

SERVER_FIELDS = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
OF_DELETION = frozenset(("deletionTimestamp", "deletionGracePeriodSeconds"))
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
GENERATE_BASE = 58
STRINGS = frozenset(("name", "generateName", "namespace", "uid", "resourceVersion"))
MAPS = frozenset(("labels", "annotations"))
LISTS: dict[str, type] = {"finalizers": str, "ownerReferences": dict}
FIELD = "managedFields"
DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed"
)
"""Upstream's text."""


def check_body(obj: Object, target: Target) -> object:
    """Check that the body is an object for this path, and set its namespace. Raises BadRequest.

    Its managedFields are removed and returned.
    """
    resource = target.resource
    if resource.custom is not None:
        _check_custom_kind(obj, target)
    check_kind(obj, resource.kind, resource.api_version)
    metadata = _checked(obj, resource.custom is not None)
    sent = metadata.pop(FIELD, None)
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if target.name and name and name != target.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if target.name and not name:
        metadata["name"] = target.name
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return sent
    if namespace and namespace != target.namespace:
        if target.name:
            text = f"the namespace of the object ({namespace}) does not match the namespace on the request"
            raise BadRequest(f"{text} ({target.namespace})")
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = target.namespace
    return sent


def _check_custom_kind(obj: Object, target: Target) -> None:
    """Check what has no defaults in a custom resource. Raises BadRequest, Invalid."""
    kind, resource = obj.get("kind"), target.resource
    for field in ("kind", "apiVersion"):
        if not obj.get(field):
            raise BadRequest(f"Object '{field[0].upper()}{field[1:]}' is missing in the body of the request")
    if kind != resource.kind:
        cause = invalid("kind", kind, f"must be {resource.kind}")
        raise invalid_object(resource.kind, resource.group, target.name, [cause])


def _check_parts(obj: Object) -> None:
    for part in ("spec", "status"):
        if part in obj and obj[part] is None:
            del obj[part]
        elif part in obj and not isinstance(obj[part], dict):
            raise BadRequest(f"{part} must be an object")


def check_kind(obj: Object, kind: str, api_version: str, must_have: bool = False) -> None:
    """Check kind and apiVersion of a body. Absent ones are set, or are errors if `must_have`. Raises BadRequest."""
    if obj.get("kind") == kind and obj.get("apiVersion") == api_version:
        return
    for field, wanted in (("kind", kind), ("apiVersion", api_version)):
        if must_have and not obj.get(field):
            title = field[0].upper() + field[1:]
            raise BadRequest(f"Object '{title}' is missing in the body of the request")
        obj[field] = obj.get(field) or wanted
    sent = (obj["kind"], obj["apiVersion"])
    if not all(isinstance(value, str) for value in sent):
        raise BadRequest("kind and apiVersion of the object must be strings")
    if must_have and sent[1] != api_version:
        text = "Incorrect version specified in apply patch. Specified patch version"
        raise BadRequest(f"{text}: {sent[1]}, expected: {api_version}")
    if sent[0] != kind:
        version = sent[1].rpartition("/")[2]
        why = f"converting ({version}.{sent[0]}) to ({api_version.rpartition('/')[2]}.{kind}): unknown conversion"
        raise BadRequest(f'{sent[0]} in version "{version}" cannot be handled as a {kind}: {why}')
    if sent[1] != api_version:
        text = f"the API version in the data ({sent[1]}) does not match the expected API version"
        raise BadRequest(f"{text} ({api_version})")


def check_metadata(obj: Object, custom: bool = False) -> Object:
    """Check the types of fields that the server relies on. The spec of a `custom` kind may have any type."""
    metadata = _checked(obj, custom)
    metadata.pop(FIELD, None)
    return metadata


def _checked(obj: Object, custom: bool) -> Object:
    if not custom:
        _check_parts(obj)
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    for field in [field for field, value in metadata.items() if type(value) is not str or field not in STRINGS]:
        if field in STRINGS:
            if metadata[field]:
                raise BadRequest(f"metadata.{field} must be a string")
        elif field in MAPS:
            _check_strings(metadata, field)
        elif field in LISTS:
            _check_list(metadata, field, LISTS[field])
    return metadata


def _check_strings(metadata: Object, field: str) -> None:
    value = metadata.get(field)
    if value is None:
        metadata.pop(field, None)
    elif not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise BadRequest(f"metadata.{field} must be a map of strings")


def _check_list(metadata: Object, field: str, kind: type) -> None:
    value = metadata.get(field)
    if not value:
        metadata.pop(field, None)
        if value not in (None, [], ""):
            raise BadRequest(f"metadata.{field} must be a list")
    elif not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise BadRequest(f"metadata.{field} must be a list of {'strings' if kind is str else 'objects'}")
    elif kind is dict and len(value) > 1:
        metadata[field] = list({msgspec.json.encode(item, order="sorted"): item for item in value}.values())


def duplicate_owners(obj: Object) -> list[str]:
    """Return the warning about repeated owner references, which `check_body` removes."""
    seen, again = set[bytes](), list[str]()
    for reference in items(obj, "metadata", "ownerReferences"):
        encoded = msgspec.json.encode(reference, order="sorted")
        again += [text(reference, "uid")] if encoded in seen else []
        seen.add(encoded)
    return [f"{DUPLICATE_OWNERS}: {', '.join(again)}"] if again else []


def finished(obj: Object) -> bool:
    """Return True if an object is being deleted and nothing holds it any longer."""
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    holds = is_namespace(obj) and (obj.get("spec") or {}).get("finalizers")
    return bool(metadata.get("deletionTimestamp")) and not waits and not holds


def is_namespace(obj: Object) -> bool:
    """Return True for a Namespace, whose finalizers are in its spec, too."""
    return bool(obj["kind"] == "Namespace" and obj["apiVersion"] == "v1")


def stamp_new(obj: Object, resource: Served) -> None:
    """Set the fields of a new object that the server owns. Raises BadRequest for a resourceVersion, Invalid."""
    metadata = obj["metadata"]
    generation = 1 if resource.strategy.has_generation else metadata.get("generation")
    if isinstance(generation, int) and generation < 0:
        cause = invalid("metadata.generation", generation, "must be greater than or equal to 0")
        raise invalid_object(resource.kind, resource.group, metadata.get("name") or "", [cause])
    version = metadata.pop("resourceVersion", "") or "0"
    if version.isdecimal() and version.strip("0"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    if not metadata.keys().isdisjoint(SERVER_FIELDS):
        for field in SERVER_FIELDS:
            metadata.pop(field, None)
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now()
    if resource.strategy.has_generation:
        metadata["generation"] = 1


def generated_name(base: str) -> str:
    """Return a random name that begins with `base`, cut so that it fits."""
    return base[:GENERATE_BASE] + "".join(random.choices(SUFFIX_ALPHABET, k=5))


def carry_over(new: Object, old: Object) -> list[Cause]:
    """Copy fields that clients cannot change from the stored object; return the causes of those that tried to."""
    metadata, stored = new["metadata"], old["metadata"]
    causes: list[Cause] = []
    if not OF_DELETION.isdisjoint(metadata):
        causes += [
            invalid(f"metadata.{field}", metadata[field], "field is immutable")
            for field in sorted(OF_DELETION & metadata.keys() - stored.keys())
            if metadata[field] is not None
        ]
    keep_server_fields(metadata, stored)
    return causes


def keep_server_fields(metadata: Object, stored: Object) -> None:
    """Undo changes of fields that the server owns: those of `stored` are set, all others removed."""
    for field in (*SERVER_FIELDS, "uid"):
        if field in stored:
            metadata[field] = stored[field]
        else:
            metadata.pop(field, None)
