"""What an API server answers when it refuses: one constructor per kind of refusal, exact in code, reason and details.

Clients match on these fields and on several of the texts, so both are part of the wire.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from protocols.errors import NodeplaneError
from protocols.kube.resources import Resource

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes a request body may have."""


class StatusError(NodeplaneError):
    """Raised where a request must be answered by a Status object; `code` is the HTTP status."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "UNKNOWN"

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status

    @property
    def code(self) -> int:
        return int(self.status.get("code") or 500)

    @property
    def reason(self) -> str:
        return str(self.status.get("reason") or "")

    @property
    def details(self) -> dict[str, Any]:
        return self.status.get("details") or {}

    @property
    def retry_after(self) -> int:
        """Seconds for the Retry-After header; 0 = no header."""
        return int(self.details.get("retryAfterSeconds") or 0)


class Cause(msgspec.Struct, frozen=True):
    """One reason of an Invalid. `message` is what follows the field: title, value, detail."""

    reason: str
    message: str
    field: str = ""

    def as_object(self) -> dict[str, str]:
        found = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in found.items() if value}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def failure(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> StatusError:
    """Any failure; empty fields of `details` are left out, None leaves out `details` itself."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status["message"] = message
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = {key: value for key, value in details.items() if value}
    status["code"] = code
    return StatusError(status)


def success(resource: Resource, name: str, uid: str = "") -> dict[str, Any]:
    """The Status of a delete (or binding) that does not return the object."""
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    kept = {key: value for key, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": kept}


def _of(resource: Resource, name: str) -> dict[str, Any]:
    return {"name": name, "group": resource.group, "kind": resource.plural}


def not_found(resource: Resource, name: str) -> StatusError:
    return failure(404, "NotFound", f'{resource.qualified} "{name}" not found', _of(resource, name))


def unknown_path() -> StatusError:
    return failure(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, terminating: bool = False) -> StatusError:
    prefix = "object is being deleted: " if terminating else ""
    return failure(409, "AlreadyExists", f'{prefix}{resource.qualified} "{name}" already exists', _of(resource, name))


def generate_exhausted(resource: Resource, name: str) -> StatusError:
    """No free name was found for a generateName."""
    text = "already exists, the server was not able to generate a unique name for the object"
    return failure(
        409, "AlreadyExists", f'{resource.qualified} "{name}" {text}', {**_of(resource, name), "retryAfterSeconds": 1}
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return failure(409, "Conflict", message, _of(resource, name))


def uid_conflict(resource: Resource, name: str, wanted: str, found: str) -> StatusError:
    """An update whose body carries another uid than the stored object."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: {resource.storage_prefix}..., ResourceVersion: 0,"
        f" AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return conflict(resource, name, why)


def delete_precondition(resource: Resource, name: str, field: str, wanted: str, found: str) -> StatusError:
    """A delete whose precondition (`field` is UID or ResourceVersion) does not hold."""
    ending = "deleted and then recreated" if field == "UID" else "modified"
    why = (
        f"the {field} in the precondition ({wanted}) does not match the {field} in record ({found})."
        f" The object might have been {ending}"
    )
    error = conflict(resource, name, why)
    error.status["details"]["kind"] = resource.kind
    return error


def apply_conflict(resource: Resource, conflicts: Sequence[tuple[str, str]]) -> StatusError:
    """Server-side apply met other owners: pairs of (manager with version, field path)."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field}
        for manager, field in conflicts
    ]
    if len(conflicts) == 1:
        text = f"Apply failed with 1 conflict: conflict with {conflicts[0][0]}: {conflicts[0][1]}"
    else:
        managers = dict.fromkeys(manager for manager, _ in conflicts)
        blocks = [
            f"conflicts with {manager}:\n" + "\n".join(f"- {field}" for owner, field in conflicts if owner == manager)
            for manager in managers
        ]
        text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(blocks)
    return failure(409, "Conflict", text, {"causes": causes})


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> StatusError:
    return _invalid(resource.group, resource.kind, resource.qualified_kind, name, list(causes))


def invalid_options(kind: str, causes: Iterable[Cause]) -> StatusError:
    """Query options that contradict each other: `kind` is ListOptions, CreateOptions, ..."""
    return _invalid("meta.k8s.io", kind, f"{kind}.meta.k8s.io", "", list(causes))


def _invalid(group: str, kind: str, qualified: str, name: str, causes: list[Cause]) -> StatusError:
    texts = list(dict.fromkeys(map(str, causes)))
    body = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {"name": name, "group": group, "kind": kind, "causes": [cause.as_object() for cause in causes]}
    return failure(422, "Invalid", f'{qualified} "{name}" is invalid: {body}', details)


def unprocessable(message: str) -> StatusError:
    """A patch that cannot be applied to what is stored; clients know the first half of the sentence."""
    return failure(422, "Invalid", f"the server rejected our request due to an error in our request: {message}", {})


def bad_request(message: str) -> StatusError:
    return failure(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return failure(401, "Unauthorized", "Unauthorized")


def forbidden(
    resource: Resource, name: str, user: str, verb: str, namespace: str = "", subresource: str = "", why: str = ""
) -> StatusError:
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    shown = f"{resource.qualified} {_quoted(name)}is forbidden" if name else f"{resource.qualified} is forbidden"
    message = f'{shown}: User "{user}" cannot {verb} resource "{plural}" in API group "{resource.group}" {where}'
    return failure(403, "Forbidden", _because(message, why), _of(resource, name))


def denied(resource: Resource, name: str, why: str) -> StatusError:
    """Admission says no, whoever asks."""
    return failure(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {why}', _of(resource, name))


def forbidden_path(user: str, verb: str, path: str, why: str = "") -> StatusError:
    return failure(403, "Forbidden", _because(f'forbidden: User "{user}" cannot {verb} path "{path}"', why), {})


def _quoted(name: str) -> str:
    return f'"{name}" '


def _because(message: str, why: str) -> str:
    return f"{message}: {why}" if why else message


def expired(message: str, continue_token: str = "") -> StatusError:
    """A position that is compacted away; `continue_token` lets a paged list go on at the latest revision."""
    error = failure(410, "Expired", message)
    if continue_token:
        error.status["metadata"] = {"continue": continue_token}
    return error


def too_old(asked: int, oldest: int) -> StatusError:
    """A watch that starts before the window; `oldest` is the first revision still known."""
    return expired(f"too old resource version: {asked} ({oldest - 1})")


def timeout_too_large_rv(asked: int, current: int, retry_after: int = 1) -> StatusError:
    """A read at a revision that was not reached in time."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return failure(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": retry_after})


def timeout(message: str, retry_after: int = 0) -> StatusError:
    return failure(504, "Timeout", f"Timeout: {message}", {"retryAfterSeconds": retry_after})


def server_timeout(resource: Resource, operation: str, retry_after: int = 2) -> StatusError:
    message = (
        f"The {operation} operation against {resource.qualified} could not be completed at this time, please try again."
    )
    return failure(500, "ServerTimeout", message, {**_of(resource, operation), "retryAfterSeconds": retry_after})


def too_many_requests(message: str, retry_after: int = 1, causes: Iterable[Cause] = ()) -> StatusError:
    objects = [cause.as_object() for cause in causes]
    return failure(429, "TooManyRequests", message, {"causes": objects, "retryAfterSeconds": retry_after})


def method_not_allowed(resource: Resource, verb: str) -> StatusError:
    message = f'{verb} is not supported on resources of kind "{resource.qualified}"'
    return failure(405, "MethodNotAllowed", message, {"group": resource.group, "kind": resource.plural})


def method_not_allowed_path() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return failure(405, "MethodNotAllowed", message, {})


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    text = "the body of the request was in an unknown format - accepted media types include: "
    return failure(415, "UnsupportedMediaType", text + ", ".join(accepted))


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    return failure(406, "NotAcceptable", "only the following media types are accepted: " + ", ".join(accepted))


def entity_too_large(limit: int = BODY_LIMIT, message: str = "") -> StatusError:
    return failure(413, "RequestEntityTooLarge", message or f"Request entity too large: limit is {limit}")


def service_unavailable(message: str) -> StatusError:
    """Sent with `Retry-After: 1` (not in details)."""
    return failure(503, "ServiceUnavailable", message)


def internal(message: str) -> StatusError:
    return failure(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})
