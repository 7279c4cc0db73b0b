"""Patch objects: JSON patch, merge patch, strategic merge patch, and server-side apply, which may also create."""

from collections.abc import Callable
from typing import Any

from actors.apiserver.api.encoding.decode import as_object, decode_json, decode_yaml
from actors.apiserver.api.errors import BadRequest, UnsupportedMediaType, as_api_error, invalid_options
from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Target, conflict
from actors.apiserver.writes.change import Mutation
from actors.apiserver.writes.metadata import check_kind, check_metadata
from actors.apiserver.writes.owners import Owners, apply, updaters
from actors.apiserver.writes.update import unnamed, updated
from actors.apiserver.writes.validation import APPLY_PATCH, Review, bad_patch, body_kind, clean_changed
from protocols.kinds.check.causes import forbidden, required
from protocols.kinds.patches.json_patch import apply_json_patch, apply_merge_patch
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.shapes.clean import WrongType
from protocols.kube.errors import KubeError
from protocols.kube.meta import Object
from protocols.kube.objects import at, fresh_copy

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def patch_mutation(target: Target, media: str, body: bytes, options: WriteOptions, review: Review) -> Mutation:
    """Decode a patch and return the mutation that applies it. Raises BadRequest, Invalid, UnsupportedMediaType."""
    check_media(target, media)
    if options.force is not None:
        raise invalid_options("PatchOptions", forbidden("force", "may not be specified for non-apply patch"))
    patch = decode_json(body)
    review.text(body, media, patch)
    apply, owners = patcher(target, media, patch), updaters(target, options)

    def mutate(old: Object) -> Object | None:
        new = apply(old)
        _check_named(target, new, media, body)
        review.patched(new, old, target, body)
        return updated(target, new, old, patching=True, owners=owners)

    return mutate


def _check_named(target: Target, new: Object, media: str, patch: bytes) -> None:
    """Check that the result of a patch still names its kind and itself. Raises BadRequest, Invalid."""
    metadata, row = new.get("metadata"), target.resource
    if media == STRATEGIC_PATCH:
        new["kind"], new["apiVersion"] = row.kind, row.api_version
    typed, named = new.get("kind") and new.get("apiVersion"), isinstance(metadata, dict) and metadata.get("name")
    if not named or not (typed or row.custom):
        raise unnamed(target)
    if not typed or new["apiVersion"] != row.api_version or (new["kind"] != row.kind and not row.custom):
        text = f"no kind {new.get('kind')!r:.256} is registered for version {new.get('apiVersion')!r:.256}"
        raise bad_patch(patch, text)


def check_media(target: Target, media: str) -> None:
    """Raise UnsupportedMediaType unless the resource supports the patch type.

    Strategic merge patches need a built-in kind. This check comes before all others: a client that tries CBOR falls
    back to JSON only after this error.
    """
    accepted = (JSON_PATCH, MERGE_PATCH, *(() if target.resource.custom else (STRATEGIC_PATCH,)))
    if media not in accepted:
        raise UnsupportedMediaType(", ".join((*accepted, APPLY_PATCH)))


def patcher(target: Target, media: str, patch: Any) -> Callable[[Object], Object]:
    """Return a function that applies the patch to a copy of an object."""
    apply = _applier(target, media, patch)
    return lambda old: _patched(apply, old)


def _applier(target: Target, media: str, patch: Any) -> Callable[[Object], Any]:
    if media == JSON_PATCH:
        return lambda old: apply_json_patch(old, patch)
    if patch is None and media == STRATEGIC_PATCH:
        return lambda old: old
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: it must be a JSON object")
    change: Object = patch
    if media == MERGE_PATCH:
        return lambda old: apply_merge_patch(old, change)
    return lambda old: apply_strategic_patch(target.resource.shape, old, change)


def _patched(apply: Callable[[Object], Any], old: Object) -> Object:
    try:
        return as_object(apply(fresh_copy(old)))
    except KubeError as error:
        raise as_api_error(error) from None
    except RecursionError as error:
        raise BadRequest(f"error applying patch: {error}") from None


def applied_configuration(target: Target, body: bytes, options: WriteOptions, review: Review) -> Object:
    """Decode the configuration of a server-side apply. Raises Invalid without a field manager, BadRequest."""
    if not options.manager:
        raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    wanted = as_object(decode_yaml(body))
    review.text(body, APPLY_PATCH, wanted)
    sent = body_kind(target.resource, target.subresource)
    check_kind(wanted, sent.kind, sent.api_version, must_have=True)
    if at(wanted, "metadata", "managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    review.configuration(wanted, target)
    check_metadata(wanted, target.resource.custom is not None)
    return wanted


def apply_mutation(target: Target, wanted: Object, options: WriteOptions) -> Mutation:
    """Return the mutation of a server-side apply: merge the configuration, remove fields it no longer has.

    The mutation raises Conflict.
    """

    def mutate(old: Object) -> Object | None:
        check_version(target, wanted, old)
        result = apply(target, wanted, options, old)
        new = fresh_copy(result.obj)
        try:
            clean_changed(new, old, target)
        except WrongType as error:
            raise BadRequest(str(error)) from None
        return updated(target, new, old, patching=True, owners=lambda new, _, sent: result.entries)

    return mutate


def applied_from_nothing(target: Target, wanted: Object, options: WriteOptions) -> Owners:
    """Return the owners of an object that a server-side apply creates. Raises BadRequest, Conflict.

    Completes the object.
    """
    if uid := wanted["metadata"].get("uid"):
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(target.resource, target.name, text)
    entries = apply(target, wanted, options, {}).entries
    clean_changed(wanted, {}, target)
    return lambda new, old, sent: entries


def check_version(target: Target, wanted: Object, old: Object) -> None:
    """Raise Conflict if the configuration names another resourceVersion."""
    version = wanted["metadata"].get("resourceVersion")
    if version and version != old["metadata"].get("resourceVersion"):
        raise conflict(target.resource, target.name)
