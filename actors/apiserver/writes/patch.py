"""PATCH: three ways to describe a change, and the applied configuration, which is a change that may also create."""

import copy
from collections.abc import Callable
from typing import Any

from actors.apiserver.body import as_object, decode_json, decode_yaml
from actors.apiserver.causes import forbidden, invalid_options, required
from actors.apiserver.errors import BadRequest, UnsupportedMediaType
from actors.apiserver.objects import Obj
from actors.apiserver.query import WriteOptions
from actors.apiserver.target import Target
from actors.apiserver.writes.metadata import check_kind, check_metadata
from actors.apiserver.writes.update import updated
from protocols.errors import NodeplaneError
from protocols.kube.patch_json import apply_json_patch
from protocols.kube.patch_merge import apply_merge_patch
from protocols.kube.patch_strategic import apply_strategic_patch
from protocols.kube.status import StatusError

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
ACCEPTED = ", ".join((JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH))

Mutation = Callable[[Obj], Obj | None]


def patch_mutation(target: Target, media: str, body: bytes, options: WriteOptions) -> Mutation:
    """Read the patch now, apply it later, as often as the write loop asks. Raises on what cannot be read."""
    if options.force is not None and media != APPLY_PATCH:
        raise invalid_options("PatchOptions", forbidden("force", "may not be specified for non-apply patch"))
    apply = _applier(target, media, body)
    return lambda old: _patched(target, apply, old)


def _applier(target: Target, media: str, body: bytes) -> Callable[[Obj], Any]:
    if media == JSON_PATCH:
        operations = decode_json(body)
        return lambda old: apply_json_patch(old, operations)
    if media == MERGE_PATCH:
        merge = as_object(decode_json(body))
        return lambda old: apply_merge_patch(old, merge)
    if media == STRATEGIC_PATCH:
        strategic = as_object(decode_json(body))
        return lambda old: apply_strategic_patch(target.resource.kind, old, strategic)
    raise UnsupportedMediaType(ACCEPTED)


def _patched(target: Target, apply: Callable[[Obj], Any], old: Obj) -> Obj | None:
    try:
        new = apply(copy.deepcopy(old))
    except StatusError:
        raise
    except (NodeplaneError, RecursionError) as error:
        raise BadRequest(f"error applying patch: {error}") from None
    return updated(target, as_object(new), old, patching=True)


def applied_configuration(target: Target, body: bytes, options: WriteOptions) -> Obj:
    """The body of a server-side apply. Raises Invalid without a manager, BadRequest for what may not be in it."""
    if not options.manager:
        raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    wanted = as_object(decode_yaml(body))
    check_kind(wanted, target.resource.kind, target.resource.api_version)
    if (wanted.get("metadata") or {}).get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    check_metadata(wanted)
    return wanted


def apply_mutation(target: Target, wanted: Obj) -> Mutation:
    """Merge the configuration over the object: lists by key, other fields replaced."""
    return lambda old: _patched(target, lambda base: apply_strategic_patch(target.resource.kind, base, wanted), old)
