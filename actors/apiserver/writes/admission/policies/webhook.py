"""Webhooks: what their configurations say, the AdmissionReview that they get, and what their answers mean. Pure."""

import base64
import binascii
import itertools
import uuid
from typing import Any

import msgspec

from actors.apiserver.api.errors import ApiError, BadRequest, BodyTooLarge, Conflict, Forbidden, Invalid, NotFound
from actors.apiserver.writes.admission.policies.evaluation import Condition, read_conditions, request_of
from actors.apiserver.writes.admission.policies.matching import Match, read_match
from actors.apiserver.writes.change import Change
from protocols.errors import NodeplaneError
from protocols.kinds.served.row import Served
from protocols.kube.errors import BodyInvalid
from protocols.kube.jsons import decode_body
from protocols.kube.meta import Object
from protocols.kube.objects import items

VERSIONS = ("v1", "v1beta1")
WARNINGS, WARNING_CHARACTERS = 64, 4096
"""Bounds of the warnings in one answer: upstream cuts their sum to 4,096 characters."""
ANNOTATIONS = 64
CODES: dict[int, type[ApiError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 413: BodyTooLarge, 422: Invalid}
"""Errors of rejections by the code that a webhook chose; all others become BadRequest, with that code."""


class WebhookFailed(NodeplaneError):
    """Raised when a webhook cannot be called, or its answer cannot be read."""


class Service(msgspec.Struct, frozen=True):
    """A service as a webhook's address."""

    namespace: str
    name: str
    path: str
    port: int

    @property
    def host(self) -> str:
        """The name that its certificate must have."""
        return f"{self.name}.{self.namespace}.svc"


class Webhook(msgspec.Struct, frozen=True):
    """One webhook of a configuration."""

    configuration: str
    name: str
    match: Match
    conditions: tuple[Condition, ...]
    ignores: bool
    """failurePolicy is Ignore."""
    seconds: int
    reinvoked: bool
    """reinvocationPolicy is IfNeeded."""
    version: str
    """Version of the AdmissionReview."""
    ca: bytes
    """PEM of the CAs that its server's certificate must be signed by; empty = those of the system."""
    url: str
    """Empty for a service."""
    service: Service | None
    mutating: bool


def read_webhooks(obj: Object) -> tuple[Webhook, ...]:
    """Parse a valid configuration of either kind."""
    name, mutating = obj["metadata"]["name"], obj.get("kind") == "MutatingWebhookConfiguration"
    return tuple(_webhook(name, mutating, webhook) for webhook in items(obj, "webhooks"))


def _webhook(configuration: str, mutating: bool, hook: Object) -> Webhook:
    client = hook.get("clientConfig") or {}
    service = client.get("service")
    asked = hook.get("admissionReviewVersions") or ()
    return Webhook(
        configuration=configuration,
        name=str(hook.get("name")),
        match=read_match(hook, "rules"),
        conditions=read_conditions(hook),
        ignores=hook.get("failurePolicy") == "Ignore",
        seconds=int(hook.get("timeoutSeconds") or 10),
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        version=next((version for version in asked if version in VERSIONS), VERSIONS[0]),
        ca=_decoded(client.get("caBundle")),
        url=str(client.get("url") or ""),
        service=None if service is None else _service(service),
        mutating=mutating,
    )


def _service(service: Object) -> Service:
    return Service(
        str(service["namespace"]), str(service["name"]), str(service.get("path") or ""), int(service.get("port") or 443)
    )


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (ValueError, TypeError, binascii.Error):
        return b"not PEM"


def review_of(
    webhook: Webhook, change: Change, row: Served, new: Object | None, old: Object | None
) -> tuple[str, Object]:
    """Return the uid and the AdmissionReview of one call."""
    uid = str(uuid.uuid4())
    request = {"uid": uid, **request_of(change, row, new, old), "object": new, "oldObject": old}
    if not request["name"]:
        del request["name"]
    if not change.namespace:
        del request["namespace"]
    return uid, {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{webhook.version}", "request": request}


class _Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[_Cause] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True):
    """The part of a rejection's Status that becomes the error."""

    code: int | None = None
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


class _Response(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    status: Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: tuple[str, ...] | None = None
    audit_annotations: dict[str, str] | None = None


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an AdmissionReview that is read: all else is skipped, so that it costs nothing."""

    api_version: str | None = None
    kind: str | None = None
    response: _Response | None = None


class Answer(msgspec.Struct, frozen=True):
    """A valid answer; `patch` is empty if it changes nothing."""

    allowed: bool
    status: Status
    patch: list[Any]
    warnings: tuple[str, ...]
    annotations: dict[str, str]


def read_answer(raw: bytes, uid: str, webhook: Webhook) -> Answer:
    """Parse the AdmissionReview of an answer. Raises WebhookFailed."""
    try:
        review = msgspec.json.decode(raw, type=Review)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WebhookFailed(f"received invalid webhook response: {error}") from None
    response = review.response
    if response is None:
        raise WebhookFailed("received invalid webhook response: webhook response was absent")
    fault = _fault_of(review, response, uid, webhook.mutating) if webhook.version == "v1" else ""
    if fault:
        raise WebhookFailed(f"received invalid webhook response: {fault}")
    return Answer(
        allowed=response.allowed is True,
        status=response.status or Status(),
        patch=_patch(response, webhook.version) if webhook.mutating else [],
        warnings=_warnings(response.warnings or ()),
        annotations=_annotations(response.audit_annotations or {}),
    )


def _fault_of(review: Review, response: _Response, uid: str, mutating: bool) -> str:
    """Return what v1 does not allow of an answer, in upstream's order; of v1beta1 nothing is checked."""
    answered = (response.uid or "")[:200]
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{answered}"'
    if (review.api_version, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        got = f"{review.api_version or '/':.200}, Kind={review.kind or '':.200}"
        return f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}"
    patch, kind = bool(response.patch), response.patch_type
    if not mutating:
        given = "patch" if patch else "patchType" if kind is not None else ""
        return f"validating webhook may not return response.{given}" if given else ""
    if patch != (kind is not None):
        given, missing = ("patch", "patchType") if patch else ("patchType", "patch")
        return f"webhook returned response.{given} but not response.{missing}"
    return 'webhook returned invalid response.patchType of ""' if kind == "" else ""


def _patch(response: _Response, version: str) -> list[Any]:
    if not response.patch:
        return []
    if response.patch_type != "JSONPatch" and version == "v1":
        raise WebhookFailed(f'unsupported patch type "{response.patch_type:.100}"')
    try:
        patch = decode_body(base64.b64decode(response.patch, validate=True))
    except (ValueError, BodyInvalid) as error:
        raise WebhookFailed(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(patch, list):
        raise WebhookFailed("received undecodable patch in webhook response: it is no list")
    return patch


def _warnings(given: tuple[str, ...]) -> tuple[str, ...]:
    left, shown = WARNING_CHARACTERS, []
    for warning in given[:WARNINGS]:
        text = warning[:left]
        left -= len(text)
        if text:
            shown.append(text)
    return tuple(shown)


def _annotations(given: dict[str, str]) -> dict[str, str]:
    return {key[:256]: text[:1024] for key, text in itertools.islice(given.items(), ANNOTATIONS)}


def rejection(webhook: Webhook, status: Status) -> ApiError:
    """Return the error of an answer that does not allow the write."""
    code, message, reason = status.code, status.message or "", status.reason or ""
    prefix = f'admission webhook "{webhook.name}" denied the request'
    why = message or reason
    text = f"{prefix}: {why}" if why else f"{prefix} without explanation"
    code = code if code is not None and 400 <= code < 600 else 400
    error = CODES.get(code, BadRequest)(text)
    error.status["code"] = code
    error.status.pop("reason", None)
    if reason:
        error.status["reason"] = reason
    if status.details is not None:
        error.status["details"] = msgspec.to_builtins(status.details)
    return error
