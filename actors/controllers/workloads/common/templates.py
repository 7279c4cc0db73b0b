"""Pods from templates, and whether two templates are equal. Pure."""

import copy
import hashlib
from typing import Any

import msgspec

from actors.controllers.workloads.common.pods import HASH
from protocols.kinds.table import PODS
from protocols.kube.meta import Object, annotations_of, labels_of, meta, name_of, namespace_of, uid_of

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Upstream's letters for generated names: no vowels, so no words."""
HASH_LETTERS = 10
LONGEST_PREFIX = 58
"""Characters of a generated name before its 5 random ones."""
PLAIN_MAPS = frozenset(("labels", "annotations", "nodeSelector", "limits", "requests", "matchLabels"))
"""Maps for which empty and absent are the same; an empty `emptyDir` is not absent."""


def template_of(obj: Object) -> Object:
    """Return spec.template; an empty one if it is missing."""
    return (obj.get("spec") or {}).get("template") or {}


def template_hash(template: Object, collisions: int = 0) -> str:
    """Return a short hash of the template; `collisions` makes another one of the same template."""
    text = msgspec.json.encode([_plain(_without_hash(template)), collisions], order="sorted")
    digest = hashlib.sha256(text).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:HASH_LETTERS])


def same_template(one: Object, other: Object) -> bool:
    """Compare templates without the label that the Deployment controller adds."""
    return bool(_plain(_without_hash(one)) == _plain(_without_hash(other)))


def _without_hash(template: Object) -> Object:
    metadata = meta(template)
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {key: _plain(part) for key, part in value.items()}
        return {key: part for key, part in fields.items() if not _absent(key, part)}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _absent(key: str, value: Any) -> bool:
    return value is None or value == [] or (value == {} and key in PLAIN_MAPS)


def owner_reference(owner: Object) -> Object:
    """Return the owner reference by which a controller's object is its owner's."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from(owner: Object, template: Object, labels: dict[str, str] | None = None, prefix: str = "") -> Object:
    """Return a new pod of `owner`, without a name; `prefix` begins its generated name, by default the owner's name."""
    metadata = meta(template)
    pod_metadata = {
        "generateName": (prefix or f"{name_of(owner)}-")[:LONGEST_PREFIX],
        "namespace": namespace_of(owner),
        "labels": {**labels_of(template), **(labels or {})},
        "annotations": dict(annotations_of(template)),
        "ownerReferences": [owner_reference(owner)],
    }
    if finalizers := metadata.get("finalizers"):
        pod_metadata["finalizers"] = list(finalizers)
    return {**PODS.type_meta, "metadata": pod_metadata, "spec": copy.deepcopy(template.get("spec") or {})}


def scaled_value(value: object, total: int, *, up: bool) -> int:
    """Resolve an integer or a percentage of `total`, rounded up or down. What is neither counts as 0."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit():
        hundredths = int(value[:-1]) * total
        return -(-hundredths // 100) if up else hundredths // 100
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
