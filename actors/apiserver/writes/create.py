"""Create objects: the steps that compute a new object. `path/steps.py` calls them in their order."""

from collections.abc import Collection

from actors.apiserver.api.errors import Forbidden, InternalError, invalid_object
from actors.apiserver.api.request.target import Target, details, forbidden
from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.metadata import check_body, stamp_new
from actors.apiserver.writes.owners import Owners, set_owners
from protocols.kinds.served.errors import AllocationInvalid, RangeFull
from protocols.kinds.served.object_meta import finalizer_name_causes, metadata_causes
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import complete
from protocols.kube.meta import Object

ENDING = "create not allowed while custom resource definition is terminating"


def check_new(target: Target, body: Object) -> object:
    """Check that a body is a new object for this path, and stamp it. Return the managedFields that it had.

    Raises BadRequest, Forbidden, Invalid.
    """
    sent = check_body(body, target)
    stamp_new(body, target.resource)
    if target.resource.custom is not None and target.resource.custom.terminating:
        raise forbidden(target.resource, body["metadata"].get("name") or "", ENDING)
    return sent


def set_defaults(change: Change, owners: Owners, sent: object) -> None:
    """Set the defaults and the owners of all fields so far: what strategy and admission set has no owner."""
    body = change.sent
    change.target.resource.strategy.default(body)
    set_owners(body, owners(body, {}, sent))


def prepared(change: Change, taken: Collection[str] = ()) -> bytes:
    """Return the encoded object to store; it cannot reserve the keys `taken`. Raises Invalid."""
    resource, body = change.target.resource, change.sent
    resource.strategy.prepare_create(body)
    complete(body, resource.shape)
    causes = metadata_causes(body, resource) + resource.strategy.validate_create(body)
    if finalizers := body["metadata"].get("finalizers"):
        causes += finalizer_name_causes(finalizers, "metadata.finalizers", resource.custom is not None)
    if causes:
        raise invalid_object(resource.kind, resource.group, body["metadata"].get("name") or "", causes)
    return encode_object(resource.converter.to_stored(allocated(resource, body, None, taken)))


def allocated(resource: Served, obj: Object, old: Object | None, taken: Collection[str] = ()) -> Object:
    """Return the object with the values that the server allocates. Raises Invalid, InternalError."""
    if resource.reserves is None:
        return obj
    try:
        return resource.strategy.allocate(obj, old, taken)
    except AllocationInvalid as error:
        raise invalid_object(resource.kind, resource.group, obj["metadata"].get("name") or "", error.causes) from None
    except RangeFull as error:
        raise InternalError(str(error)) from None


def check_namespace(change: Change, namespace: Stored) -> None:
    """Check that the namespace takes the new object. Raises Forbidden, Invalid."""
    resource, name = change.target.resource, change.sent["metadata"]["name"]
    if namespace.obj["metadata"].get("deletionTimestamp"):
        raise _terminating(change.target, name)
    if causes := resource.strategy.check_namespace(change.sent, namespace.obj):
        raise invalid_object(resource.kind, resource.group, name, causes)


def check_definition(change: Change, definition: Stored) -> None:
    """Check that the definition of a custom resource takes a new object. Raises Forbidden."""
    if definition.obj["metadata"].get("deletionTimestamp"):
        raise forbidden(change.target.resource, change.sent["metadata"]["name"], ENDING)


def _terminating(target: Target, name: str) -> Forbidden:
    text = f"unable to create new content in namespace {target.namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {target.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = f'{target.resource.full_name} "{name}" is forbidden: {text}'
    return Forbidden(message, {**details(target.resource, name), "causes": [cause]})
