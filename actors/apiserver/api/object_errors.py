"""Errors every verb may raise about one object, with the texts clients match on."""

from actors.apiserver.api.errors.answers import AlreadyExists, Conflict, Forbidden, NotFound
from actors.apiserver.api.resource import Resource
from protocols.kube.status import StatusError

MODIFIED_TEXT = "the object has been modified; please apply your changes to the latest version and try again"


def details(resource: Resource, name: str) -> dict[str, object]:
    return {"name": name, "group": resource.group, "kind": resource.plural}


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.full_name} "{name}" not found', details(resource, name))


def already_exists(resource: Resource, name: str, terminating: bool = False) -> AlreadyExists:
    prefix = "object is being deleted: " if terminating else ""
    return AlreadyExists(f'{prefix}{resource.full_name} "{name}" already exists', details(resource, name))


def name_exhausted(resource: Resource, name: str) -> AlreadyExists:
    text = "already exists, the server was not able to generate a unique name for the object"
    return AlreadyExists(f'{resource.full_name} "{name}" {text}', details(resource, name), retry_after=1)


def conflict(resource: Resource, name: str, text: str = MODIFIED_TEXT) -> Conflict:
    message = f'Operation cannot be fulfilled on {resource.full_name} "{name}": {text}'
    return Conflict(message, details(resource, name))


def forbidden(resource: Resource, name: str, text: str) -> Forbidden:
    return Forbidden(f'{resource.full_name} "{name}" is forbidden: {text}', details(resource, name))


def may_be_stale(fault: StatusError) -> bool:
    """Whether newer data could have led to another answer."""
    return fault.code in (404, 409, 422, 403)
