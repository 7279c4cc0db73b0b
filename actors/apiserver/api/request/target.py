"""Targets: the resource, object or subresource that a request's path and method name."""

import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from actors.apiserver.api.errors import AlreadyExists, BadRequest, Conflict, Forbidden, MethodNotAllowed, NotFound
from protocols.kinds.served.row import Served, Table
from protocols.kube.errors import StatusError


class Attributes(msgspec.Struct, frozen=True):
    """Attributes of a request, as authorization rules see it."""

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    """Equality terms of the field selector."""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


PROXY = "proxy"
"""A subresource whose paths go on below it."""
COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
OBJECT_VERBS = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SUBRESOURCE_VERBS = {**OBJECT_VERBS, "POST": "create"}


class Target(msgspec.Struct, frozen=True):
    """Resource, object and verb of a request. A watch has the verb `list`, since only its query differs."""

    resource: Served
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watched: str | None = None
    """Name of the only object to watch by a path below /watch/; empty for all."""

    @property
    def key(self) -> str:
        """The storage key below the resource's prefix; of a collection, the prefix of its keys."""
        return f"{self.namespace}/{self.name}" if self.namespace and self.resource.namespaced else self.name


def resource_path(path: str) -> tuple[str, str, list[str]] | None:
    """Return (group, version, rest) of /api/v1/... and /apis/GROUP/VERSION/...; None of any other path."""
    parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if parts[0] == "api" and len(parts) > 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3:
        return parts[1], parts[2], parts[3:]
    return None


def parse_target(table: Table, method: str, path: str) -> Target | None:
    """Return the target of a resource request; None if the path names no resource.

    Raises NotFound, MethodNotAllowed and BadRequest.
    """
    split = resource_path(path)
    if split is None:
        return None
    group, version, rest = split
    if rest[0] == "watch" and len(rest) > 1:
        return _watched(parse_rest(table, (group, version), "GET", rest[1:]), method)
    return parse_rest(table, (group, version), method, rest)


def parse_rest(table: Table, group_version: tuple[str, str], method: str, rest: list[str]) -> Target:
    """Return the target of the path below a group's version. Raises as parse_target."""
    namespace, rest = _split_namespace(rest)
    if rest[2:3] == [PROXY]:
        rest = rest[:3]  # the rest is the node's
    if not 1 <= len(rest) <= 3 or not all(rest):
        raise unknown_path()
    resource = table.find(*group_version, rest[0])
    if resource is None or (namespace and not resource.namespaced and resource.plural != "namespaces"):
        raise unknown_path()
    return _target(resource, method, namespace, rest)


def _watched(target: Target, method: str) -> Target:
    """Return the watch of a target. The paths are deprecated since 1.11, and still served upstream."""
    if target.subresource:
        raise unknown_path()
    if method != "GET":
        raise MethodNotAllowed("the server does not allow this method on the requested resource")
    return Target(target.resource, "list", target.namespace, watched=target.name)


def query_of(target: Target, query: Mapping[str, str]) -> Mapping[str, str]:
    """Return the query of a request with what its path says: that it is a watch, and of which object."""
    if target.watched is None:
        return query
    name = re.sub(r"([\\,=])", r"\\\1", target.watched)
    fields = query.get("fieldSelector", "")
    selected = ",".join(filter(None, (fields, f"metadata.name={name}" if name else "")))
    return {**query, "watch": "true", "fieldSelector": selected}


def _split_namespace(rest: list[str]) -> tuple[str, list[str]]:
    """Split off the namespace: `namespaces/x/pods` is inside namespace x.

    `namespaces/x` and its subresources are the namespace object itself.
    """
    inside = len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize")
    return (rest[1], rest[2:]) if inside else ("", rest)


def _target(resource: Served, method: str, namespace: str, rest: list[str]) -> Target:
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if name and resource.namespaced and not namespace:
        raise unknown_path()
    if "/" in name or "/" in namespace or "\0" in name + namespace or name in (".", "..") or namespace in (".", ".."):
        raise BadRequest(f'invalid name "{name or namespace}" in path')
    verb = _verb(resource, method, name, subresource)
    if verb in ("create", "deletecollection") and not name and resource.namespaced and not namespace:
        raise MethodNotAllowed("the server does not allow this method on the requested resource")
    return Target(resource, verb, namespace, name, subresource)


def _verb(resource: Served, method: str, name: str, subresource: str) -> str:
    if subresource:
        known = resource.subresource(subresource)
        if known is None:
            raise unknown_path()
        if subresource == PROXY and method == "OPTIONS":
            return ""  # no verb, as upstream: only rules with verb `*` allow it
        verb = SUBRESOURCE_VERBS.get(method)
        allowed: tuple[str, ...] = known.verbs
    else:
        verb = (OBJECT_VERBS if name else COLLECTION_VERBS).get(method)
        allowed = resource.verbs
    if verb is None:
        raise MethodNotAllowed("the server does not allow this method on the requested resource")
    if verb not in allowed:
        raise verb_not_supported(resource, verb)
    return verb


def verb_not_supported(resource: Served, verb: str) -> MethodNotAllowed:
    """Return the 405 for a verb that the resource does not have."""
    message = f'{verb} is not supported on resources of kind "{resource.full_name}"'
    return MethodNotAllowed(message, {"group": resource.group, "kind": resource.plural})


def unknown_path() -> NotFound:
    """Return the 404 for a path that nothing serves."""
    return NotFound("the server could not find the requested resource")


MODIFIED_TEXT = "the object has been modified; please apply your changes to the latest version and try again"


def details(resource: Served, name: str) -> dict[str, object]:
    """Return the `details` of a Status about an object."""
    return {"name": name, "group": resource.group, "kind": resource.plural}


def not_found(resource: Served, name: str) -> NotFound:
    """Return the 404 for an object that does not exist."""
    return NotFound(f'{resource.full_name} "{name}" not found', details(resource, name))


def already_exists(resource: Served, name: str, terminating: bool = False) -> AlreadyExists:
    """Return the 409 for a name that is taken, be it by an object that is being deleted."""
    prefix = "object is being deleted: " if terminating else ""
    return AlreadyExists(f'{prefix}{resource.full_name} "{name}" already exists', details(resource, name))


def name_exhausted(resource: Served, name: str) -> AlreadyExists:
    """Return the 409 for a generateName of which every drawn name was taken; the client may try again."""
    text = "already exists, the server was not able to generate a unique name for the object"
    return AlreadyExists(f'{resource.full_name} "{name}" {text}', details(resource, name), retry_after=1)


def conflict(resource: Served, name: str, text: str = MODIFIED_TEXT) -> Conflict:
    """Return the 409 for a resourceVersion that is not the current one, or for what `text` says instead."""
    message = f'Operation cannot be fulfilled on {resource.full_name} "{name}": {text}'
    return Conflict(message, details(resource, name))


def forbidden(resource: Served, name: str, text: str) -> Forbidden:
    """Return the 403 of admission; RBAC's has another text."""
    return Forbidden(f'{resource.full_name} "{name}" is forbidden: {text}', details(resource, name))


def may_be_stale(fault: StatusError) -> bool:
    """Return True if newer data could have led to another answer."""
    return 400 <= fault.code < 500 and fault.code != 429
