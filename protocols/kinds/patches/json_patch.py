"""JSON patch (RFC 6902) by the jsonpatch library, behind our limits and our errors."""

import re
from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointer, JsonPointerException

from protocols.kube.errors import PatchImpossible, PatchInvalid, PatchTestFailed, PatchTooLarge
from protocols.kube.jsons import check_depth, read_json, same_json
from protocols.kube.meta import Object

OPERATIONS_LIMIT = 10_000
COPY_LIMIT = 3 * 1024 * 1024
"""Bytes all copy operations of one patch may add: without it ten thousand copies double an object without end."""

VALUED = ("add", "replace", "test")
INDEX, UNUSUAL = re.compile(r"-?[0-9]{1,9}"), re.compile(r"/[-0][0-9]")
"""Indices that Go reads, and the begin of those that the RFC has not."""
_FAULTS = (jsonpatch.JsonPatchException, JsonPointerException, KeyError, IndexError, TypeError, ValueError)


def apply_json_patch(document: Object, patch: Any) -> Object:
    """Return the document with all operations applied.

    Raises errors of code 400 for a malformed patch, 413 beyond a limit, 422 otherwise.
    """
    patch = [] if patch is None else patch
    _check_shape(patch)
    patched: Any = read_json(msgspec.json.encode(document))
    copied = 0
    for number, operation in enumerate(patch):
        copied += _copy_size(patched, operation)
        if copied > COPY_LIMIT:
            raise PatchTooLarge(f"the patch copies more than {COPY_LIMIT} bytes")
        patched = _apply_one(patched, _as_upstream(patched, operation), number)
    if not isinstance(patched, dict):
        raise PatchImpossible("the patch must leave a JSON object")
    check_depth(patched)
    return patched


def _check_shape(patch: Any) -> None:
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise PatchInvalid("a JSON patch must be an array of operations")
    if len(patch) > OPERATIONS_LIMIT:
        raise PatchTooLarge(f"the allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, got {len(patch)}")


def _as_upstream(document: Any, operation: dict[str, Any]) -> dict[str, Any]:
    """Return an operation in the words of the RFC, with what upstream's library takes beyond it.

    It reads a missing value as null, replaces, tests and copies absent members, counts negative indices from the end
    and reads leading zeros of indices.
    """
    kind, path = operation.get("op"), operation.get("path")
    if kind not in (*VALUED, "remove", "copy") or not isinstance(path, str):
        return operation
    adapted = {"value": None, **operation} if kind in VALUED else dict(operation)
    try:
        if kind == "copy" and _lacks(document, operation["from"]):
            adapted |= {"op": "add", "value": None}
        if UNUSUAL.search(path):
            adapted["path"] = _counted(document, path, kind in ("add", "copy"))
        if kind == "replace" and _lacks(document, adapted["path"]):
            adapted["op"] = "add"
    except _FAULTS:
        return operation  # it fails, and says why
    return adapted


def _counted(document: Any, path: str, adds: bool) -> str:
    """Replace unusual indices of lists."""
    parts = JsonPointer(path).parts
    for at, part in enumerate(parts):
        above = JsonPointer.from_parts(parts[:at]).resolve(document)
        if isinstance(above, list) and INDEX.fullmatch(part):
            end = len(above) + (adds and at == len(parts) - 1) if part.startswith("-") else 0
            parts[at] = str(int(part) + end)
    return str(JsonPointer.from_parts(parts).path)


def _lacks(document: Any, path: str) -> bool:
    parts = JsonPointer(path).parts
    above = JsonPointer.from_parts(parts[:-1]).resolve(document) if parts else None
    return isinstance(above, dict) and parts[-1] not in above


def _apply_one(document: Any, operation: dict[str, Any], number: int) -> Any:
    what = f"the JSON patch cannot be applied: operation {number} ({operation.get('op')} {operation.get('path')!r})"
    try:
        if operation.get("op") != "test":
            return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
        passes = _passes(document, operation)
    except _FAULTS as error:
        raise PatchImpossible(f"{what}: {error}") from None
    if not passes:
        raise PatchTestFailed(f"{what}: the value differs")
    return document


def _passes(document: Any, operation: dict[str, Any]) -> bool:
    """The library's own test holds true equal to 1. An absent member is null."""
    value = None if _lacks(document, operation["path"]) else JsonPointer(operation["path"]).resolve(document)
    return same_json(value, operation["value"])


def _copy_size(document: Any, operation: dict[str, Any]) -> int:
    if operation.get("op") != "copy":
        return 0
    try:
        return len(msgspec.json.encode(JsonPointer(operation["from"]).resolve(document)))
    except _FAULTS:
        return 0  # the operation itself will fail and say why


def apply_merge_patch(document: Object, patch: Any) -> Object:
    """Return the document with the patch applied; raises PatchInvalid if it is no object."""
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
