"""JSON merge patch (RFC 7386), and the smallest one between two objects. Inputs are never changed; results may share
unchanged parts with them."""

from typing import Any

from protocols.kube.errors import PatchInvalid
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object


def apply_merge_patch(document: Object, patch: Any) -> Object:
    """`document` with `patch` applied; raises BodyInvalid when the patch is not an object."""
    if not isinstance(patch, dict):
        raise PatchInvalid("a merge patch must be a JSON object")
    return _merge(document, patch)


def _merge(document: Any, patch: dict[str, Any]) -> Object:
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def minimal_patch(old: Object, new: Object) -> Object:
    """The merge patch that turns `old` into `new`, empty when they are equal. `new` must not contain nulls."""
    patch: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := minimal_patch(before, value):
                patch[key] = inner
        elif key not in old or not same_json(before, value):
            patch[key] = value
    return patch
