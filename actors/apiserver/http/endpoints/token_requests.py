"""POST serviceaccounts/NAME/token: issue a token that ends with its time, its account or the object it is bound to."""

import json
from collections.abc import Awaitable, Callable

import msgspec

from actors.apiserver.api.errors import BadRequest, Conflict, Forbidden, ServiceUnavailable, invalid_object
from actors.apiserver.api.request.query import write_options
from actors.apiserver.api.request.target import Attributes, details, not_found
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.authorization.node_rules import is_node, node_name
from actors.apiserver.http.authentication.signing import NoSigningKey
from actors.apiserver.http.authentication.token_authority import TokenAuthority
from actors.apiserver.http.authentication.token_claims import BOUND, ISSUER, RESOURCES, Grant, credential_id
from actors.apiserver.http.connection.requests import Request, read_object
from actors.apiserver.http.connection.responses import Reply, encoded_reply
from actors.apiserver.http.telemetry.audit import ANNOTATIONS
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.metadata import check_kind, check_metadata
from protocols.kinds.check.causes import Cause, invalid, required, unsupported
from protocols.kinds.served.row import Table
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.kube.times import format_time, now
from protocols.trace import record

SHORTEST_S, DEFAULT_S, LONGEST_S = 600, 3600, 2**32
GROUP = "authentication.k8s.io"
ISSUED = "authentication.kubernetes.io/issued-credential-id"
"""Annotation in the audit log; the token's later requests have the same id there."""


class _TokenOptions(msgspec.Struct, frozen=True):
    audiences: tuple[str, ...]
    seconds: int
    kind: str = ""
    """Kind of the object to bind to; empty = none."""
    name: str = ""
    uid: str = ""


def read_request(body: Object) -> _TokenOptions:
    """Raises Invalid."""
    spec = body.setdefault("spec", {})
    causes = [*_time_causes(spec), *_audience_causes(spec), *_bound_causes(spec)]
    if causes:
        raise invalid_object("TokenRequest", GROUP, text(body, "metadata", "name"), causes)
    spec["audiences"] = spec.get("audiences") or [ISSUER]
    spec["expirationSeconds"] = DEFAULT_S if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
    bound = spec.get("boundObjectRef") or {}
    return _TokenOptions(
        tuple(spec["audiences"]),
        spec["expirationSeconds"],
        text(bound, "kind"),
        text(bound, "name"),
        text(bound, "uid"),
    )


def _time_causes(spec: Object) -> list[Cause]:
    path, seconds = "spec.expirationSeconds", spec.get("expirationSeconds")
    if seconds is None:
        return []
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        return [invalid(path, seconds, "must be an integer")]
    if seconds < SHORTEST_S:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    return (
        [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")] if seconds > LONGEST_S else []
    )


def _audience_causes(spec: Object) -> list[Cause]:
    value = spec.get("audiences")
    good = value is None or (isinstance(value, list) and all(isinstance(item, str) and item for item in value))
    return [] if good else [invalid("spec.audiences", value, "must be a list of names")]


def _bound_causes(spec: Object) -> list[Cause]:
    path, bound = "spec.boundObjectRef", spec.get("boundObjectRef")
    if bound is None:
        return []
    if not isinstance(bound, dict):
        return [invalid(path, bound, "must be an object")]
    if text(bound, "kind") not in BOUND or bound.get("apiVersion", "v1") != "v1":
        shown = f"{at(bound, 'apiVersion')}, Kind={at(bound, 'kind')}"
        return [unsupported(f"{path}.kind", shown, tuple(BOUND))]
    return [] if text(bound, "name") else [required(f"{path}.name")]


Stored = Callable[[str, str, str], Awaitable[Object | None]]


class Tokens:
    """POST serviceaccounts/NAME/token."""

    def __init__(
        self,
        authority: TokenAuthority,
        authorizer: Authorizer,
        table: Table,
        stored: Stored,
        admission: Admission,
    ) -> None:
        """`stored` reads (resource, namespace, name) from the store: a token must not outlive what is gone."""
        self._authority, self._authorizer, self._table, self._stored = authority, authorizer, table, stored
        self._admission = admission

    async def create(self, request: Request) -> Reply:
        """Raises NotFound, BadRequest, Invalid, Conflict, Forbidden."""
        write_options(request.query, request.dry_runs, "")
        body = await read_object(request.http, "TokenRequest")
        check_kind(body, "TokenRequest", f"{GROUP}/v1")
        metadata = check_metadata(body)
        target = request.target
        if metadata.get("name") not in (None, "", target.name):
            raise BadRequest(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
            )
        uid = text(metadata, "uid")
        metadata.update(name=target.name, namespace=target.namespace, creationTimestamp=now())
        audiences = at(body, "spec", "audiences")  # before read_request sets the default
        asked = read_request(body)
        pod = await self._pod_of_node(request, asked, audiences or []) if is_node(request.user) else None
        warnings = await self._admission.review(Change(target, request.user, new=body))
        grant = await self._grant(request, asked, uid, pod)
        token, ends = await self._issue(grant)
        request.http[ANNOTATIONS] = {ISSUED: credential_id(grant.id)}
        if asked.kind == "Pod":
            record(asked.uid, "create token", request.began, user=request.user.name, account=target.name)
        body["status"] = {"token": token, "expirationTimestamp": format_time(ends)}
        return await encoded_reply(body, request.form, 201, warnings)

    async def _issue(self, grant: Grant) -> tuple[str, float]:
        try:
            return await self._authority.issue(grant)
        except NoSigningKey as error:
            raise ServiceUnavailable(str(error)) from None

    async def _grant(self, request: Request, asked: _TokenOptions, uid: str, pod: Object | None) -> Grant:
        """`pod`: the object to bind to, if it was read already."""
        target = request.target
        account = await self._stored("serviceaccounts", target.namespace, target.name)
        if account is None:
            raise not_found(target.resource, target.name)
        current = text(account, "metadata", "uid")
        if uid and uid != current:
            fault = f"the UID in the token request ({uid}) does not match the UID of the service account ({current})"
            message = f'Operation cannot be fulfilled on {target.resource.full_name} "{target.name}": {fault}'
            raise Conflict(message, details(target.resource, target.name))
        bound = (pod or await self._bound(target.namespace, asked)) if asked.kind else None
        _check_pod(target.name, asked, bound)
        name = text(bound, "spec", "nodeName") if asked.kind == "Pod" else ""
        node = await self._stored("nodes", "", name) if name else None
        return Grant(account, asked.audiences, asked.seconds, asked.kind, bound, node)

    async def _pod_of_node(self, request: Request, asked: _TokenOptions, audiences: list[str]) -> Object:
        """Return the pod: a node gets only tokens of pods that run on it, for audiences they name.

        Raises Forbidden, NotFound.
        """
        _refuse(request, _unbound(asked))
        pod = await self._stored("pods", request.target.namespace, asked.name)
        if pod is None:
            raise not_found(self._table.of("pods"), asked.name)
        if asked.uid != text(pod, "metadata", "uid"):
            _refuse(request, _replaced(asked))
        if text(pod, "spec", "nodeName") != node_name(request.user):
            _refuse(request, "node requested token bound to a pod scheduled on a different node")
        if len(audiences) > 1:
            _refuse(request, "node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        if not await self._may_ask(request, audience, pod):
            unfit = f"{request.user.name} is not authorized to request tokens for this audience"
            _refuse(request, f"audience {json.dumps(audience)} not found in pod spec volume, {unfit}")
        return pod

    async def _may_ask(self, request: Request, audience: str, pod: Object) -> bool:
        """Return True if a volume of the pod or an RBAC rule names the audience.

        Follows upstream's admission plugin NodeRestriction with ServiceAccountNodeAudienceRestriction.
        """
        for volume in items(pod, "spec", "volumes"):
            tokens = [source.get("serviceAccountToken") for source in items(volume, "projected", "sources")]
            if any(isinstance(token, dict) and text(token, "audience") == audience for token in tokens):
                return True
            if audience in await self._driver_audiences(request.target.namespace, pod, volume):
                return True
        target = request.target
        verb = "request-serviceaccounts-token-audience"
        right = Attributes(verb, "", "", audience, "", target.namespace, target.name)
        return bool(audience) and self._authorizer.allows(request.user, right)

    async def _driver_audiences(self, namespace: str, pod: Object, volume: Object) -> set[str]:
        """Return the audiences of tokens that the CSI driver of a volume asks for."""
        driver, claim = text(volume, "csi", "driver"), text(volume, "persistentVolumeClaim", "claimName")
        if volume.get("ephemeral") is not None:
            claim = f"{text(pod, 'metadata', 'name')}-{text(volume, 'name')}"
        if claim:
            stored = await self._stored("persistentvolumeclaims", namespace, claim)
            name = text(stored, "spec", "volumeName")
            driver = text(await self._stored("persistentvolumes", "", name), "spec", "csi", "driver") if name else ""
        known = await self._stored("csidrivers", "", driver) if driver else None
        return {text(asked, "audience") for asked in items(known, "spec", "tokenRequests")}

    async def _bound(self, namespace: str, asked: _TokenOptions) -> Object:
        """Return the object to bind to. Raises NotFound, Conflict."""
        row = self._table.of(RESOURCES[BOUND[asked.kind]])
        bound = await self._stored(row.plural, namespace if row.namespaced else "", asked.name)
        if bound is None:
            raise not_found(row, asked.name)
        uid = text(bound, "metadata", "uid")
        if asked.uid and asked.uid != uid:
            message = f'Operation cannot be fulfilled on {row.full_name} "{asked.name}": {_replaced(asked)}'
            raise Conflict(message, details(row, asked.name))
        return bound


def _check_pod(account: str, asked: _TokenOptions, bound: Object | None) -> None:
    if asked.kind == "Pod" and text(bound, "spec", "serviceAccountName") != account:
        raise BadRequest(
            f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
        )


def _replaced(asked: _TokenOptions) -> str:
    return (
        f"the UID in the bound object reference ({asked.uid}) does not match the UID in record. "
        "The object might have been deleted and then recreated"
    )


def _unbound(asked: _TokenOptions) -> str:
    """Return why a node gets no such token, before anything is read: a pod of the same name may be another pod."""
    if asked.kind != "Pod":
        return "node requested token not bound to a pod"
    return "" if asked.uid else "node requested token with a pod binding without a uid"


def _refuse(request: Request, fault: str) -> None:
    if fault:
        row, name = request.target.resource, request.target.name
        raise Forbidden(f'{row.full_name} "{name}" is forbidden: {fault}', details(row, name))
