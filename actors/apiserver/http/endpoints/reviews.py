"""Reviews of tokens, users and permissions. A review is stored nowhere: the response is the request with a status."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from actors.apiserver.api.errors import BadRequest, TooManyRequests, invalid_object
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User
from actors.apiserver.api.request.workers import offload, workers
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.authorization.node_rules import node_name
from actors.apiserver.http.authentication.signing import BadToken
from actors.apiserver.http.authentication.token_authority import TokenAuthority
from actors.apiserver.http.authentication.token_claims import ISSUER
from actors.apiserver.http.connection.requests import Request, read_object
from actors.apiserver.http.connection.responses import Reply, encoded_reply
from actors.apiserver.writes.metadata import check_kind, check_metadata
from protocols.kinds.check.causes import Cause, invalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.kube.times import now

RESOURCE, OTHER = "spec.resourceAttributes", "spec.nonResourceAttributes"
GROUP_BYTES = 16
"""Cost of deciding for one group, in bytes of a body."""


class Reviews:
    """POST of each kind of review."""

    def __init__(self, authorizer: Authorizer, authority: TokenAuthority) -> None:
        self._authorizer, self._authority = authorizer, authority
        self._answers: dict[str, Callable[[Request, Object], Awaitable[Object]]] = {
            "TokenReview": self._token,
            "SelfSubjectReview": self._self,
            "SubjectAccessReview": self._access,
            "LocalSubjectAccessReview": self._access,
            "SelfSubjectAccessReview": self._own_access,
            "SelfSubjectRulesReview": self._own_rules,
        }

    async def create(self, request: Request) -> Reply:
        row = request.target.resource
        body = await read_object(request.http, row.kind)
        check_kind(body, row.kind, row.api_version)
        check_metadata(body)
        status = await self._answers[row.kind](request, body)
        body["metadata"].setdefault("creationTimestamp", now())
        body["status"] = status
        return await encoded_reply(body, request.form, 201)

    async def _self(self, request: Request, _body: Object) -> Object:
        return {"userInfo": _user_info(request.user)}

    async def _token(self, _request: Request, body: Object) -> Object:
        token = at(body, "spec", "token")
        if not isinstance(token, str) or not token:
            raise BadRequest("token is required for TokenReview in authentication")
        audiences = tuple(_strings(at(body, "spec", "audiences"))) or (ISSUER,)
        try:
            proven = await self._authority.prove(token, audiences)
        except BadToken as error:
            return {"authenticated": False, "user": {}, "error": str(error)}
        return {"authenticated": True, "user": _user_info(proven.user), "audiences": list(proven.audiences)}

    async def _access(self, request: Request, body: Object) -> Object:
        spec = body.get("spec") or {}
        groups = spec.get("groups")
        size = GROUP_BYTES * len(groups) if isinstance(groups, list) else 0
        return await offload(size, lambda: self._decide_for_other(request, spec))

    def _decide_for_other(self, request: Request, spec: Object) -> Object:
        user = User(text(spec, "user"), tuple(_strings(spec.get("groups"))), text(spec, "uid"))
        named = user.name or user.groups
        unnamed = () if named else (invalid("spec.user", "", "at least one of user or group must be specified"),)
        return self._decide(request, user, spec, unnamed)

    async def _own_access(self, request: Request, body: Object) -> Object:
        return self._decide(request, request.user, body.get("spec") or {})

    def _decide(self, request: Request, user: User, spec: Object, unnamed: Iterable[Cause] = ()) -> Object:
        resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        row, namespace = request.target.resource, request.target.namespace
        if causes := [*_sort_causes(resource, other), *unnamed, *_causes(resource, other, namespace)]:
            raise invalid_object(row.kind, row.group, "", causes)
        wanted = _resource_attributes(resource) if isinstance(resource, dict) else _other_attributes(other or {})
        decision = self._authorizer.decide(user, wanted)
        if not decision.allowed:
            self._check_known()
        return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}

    async def _own_rules(self, request: Request, body: Object) -> Object:
        namespace = text(body, "spec", "namespace")
        if not namespace:
            raise BadRequest("no namespace on request")
        self._check_known()
        rules = await workers().run(lambda: self._rules(request.user, namespace))
        node = bool(node_name(request.user))
        return {
            "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
            "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
            "incomplete": node,
            **({"evaluationError": "the rules of nodes depend on objects and are not listed"} if node else {}),
        }

    def _rules(self, user: User, namespace: str) -> list[Object]:
        """Runs in a thread: a user may hold tens of thousands of rules."""
        return [rule.as_object() for rule in dict.fromkeys(self._authorizer.rules(user, namespace))]

    def _check_known(self) -> None:
        if self._authorizer.policy() is None:
            raise TooManyRequests("storage is (re)initializing: roles are not known yet", retry_after=1)


def _user_info(user: User) -> Object:
    parts: Object = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
    return {key: value for key, value in parts.items() if value}


def _sort_causes(resource: Any, other: Any) -> Iterator[Cause]:
    if isinstance(resource, dict) and isinstance(other, dict):
        yield invalid(OTHER, other, "cannot be specified in combination with resourceAttributes")
    if not isinstance(resource, dict) and not isinstance(other, dict):
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid(RESOURCE, resource, detail)


def _causes(resource: Any, other: Any, namespace: str) -> Iterator[Cause]:
    """Check the attributes; `namespace` is that of a local review. Authorizers read one form of a selector."""
    for field in ("fieldSelector", "labelSelector") if isinstance(resource, dict) else ():
        raw = text(resource, field, "rawSelector")
        if raw and items(resource, field, "requirements"):
            path = f"{RESOURCE}.{field}.rawSelector"
            yield invalid(path, raw, "may not specified at the same time as requirements")
    if namespace and isinstance(resource, dict) and text(resource, "namespace") != namespace:
        yield invalid(f"{RESOURCE}.namespace", text(resource, "namespace"), "must match metadata.namespace")
    if namespace and isinstance(other, dict):
        yield invalid(OTHER, other, "disallowed on this kind of request")


def _resource_attributes(asked: Object) -> Attributes:
    """Attributes without a resource mean all resources, so only a rule for all allows them."""
    return Attributes(
        verb=text(asked, "verb"),
        path="",
        group=text(asked, "group"),
        resource=text(asked, "resource") or "*",
        subresource=text(asked, "subresource"),
        namespace=text(asked, "namespace"),
        name=text(asked, "name"),
        fields=tuple(_equalities(asked)),
    )


def _equalities(asked: Object) -> list[tuple[str, str]]:
    equalities = []
    for term in items(asked, "fieldSelector", "requirements"):
        values = _strings(term.get("values"))
        if term.get("operator") == "In" and len(values) == 1:
            equalities.append((text(term, "key"), values[0]))
    return equalities


def _other_attributes(asked: Object) -> Attributes:
    return Attributes(text(asked, "verb"), text(asked, "path"))


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
