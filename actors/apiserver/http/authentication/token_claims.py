"""Claims of a service account token, and their validity. Pure: callers pass time and objects."""

from typing import Any

import msgspec

from actors.apiserver.api.request.user import CREDENTIAL_ID, User, account_groups, account_name
from actors.apiserver.http.authentication.signing import BadToken
from protocols.kube.meta import Object, new_uid
from protocols.kube.objects import at, text
from protocols.kube.times import time_or

ISSUER = "https://kubernetes.default.svc.cluster.local"
PRIVATE = "kubernetes.io"
LEEWAY = 10.0
"""Seconds a clock may be behind ours when a token says `not before`."""
TERMINATING_S = 60.0
"""Seconds that a token outlives the deletion of an object it is bound to, if something keeps the object: upstream's."""
BOUND = {"Pod": "pod", "Secret": "secret", "Node": "node"}
"""Kinds a token can be bound to, and their claim."""
RESOURCES = {"pod": "pods", "secret": "secrets", "node": "nodes"}


class Grant(msgspec.Struct, frozen=True):
    """Parameters of a token to issue."""

    account: Object
    audiences: tuple[str, ...]
    seconds: int
    bound_kind: str = ""
    bound: Object | None = None
    node: Object | None = None
    """The node of the bound pod."""
    id: str = msgspec.field(default_factory=new_uid)


def make_claims(grant: Grant, now: float) -> dict[str, Any]:
    """Return the claims of a new token; `now` is Unix time."""
    namespace, name = text(grant.account, "metadata", "namespace"), text(grant.account, "metadata", "name")
    private: dict[str, Any] = {"namespace": namespace, "serviceaccount": _named(grant.account)}
    if grant.bound is not None:
        private[BOUND[grant.bound_kind]] = _named(grant.bound)
    if grant.node is not None:
        private["node"] = _named(grant.node)
    return {
        "aud": list(grant.audiences),
        "exp": int(now) + grant.seconds,
        "iat": int(now),
        "nbf": int(now),
        "iss": ISSUER,
        "jti": grant.id,
        PRIVATE: private,
        "sub": account_name(namespace, name),
    }


def _named(obj: Object) -> dict[str, str]:
    return {"name": text(obj, "metadata", "name"), "uid": text(obj, "metadata", "uid")}


def check_times(claims: dict[str, Any], now: float) -> None:
    """Raises BadToken."""
    if claims.get("iss") != ISSUER:
        raise BadToken("the token is of another issuer")
    ends, begins = _number(claims.get("exp")), _number(claims.get("nbf"))
    if now >= ends:
        raise BadToken("service account token has expired")
    if now + LEEWAY < begins:
        raise BadToken("service account token is not valid yet")


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise BadToken("the token has no times")


def audiences_of(claims: dict[str, Any]) -> tuple[str, ...]:
    """Return the claim `aud`, which may be a text or a list; texts only."""
    audiences = claims.get("aud")
    audiences = [audiences] if isinstance(audiences, str) else audiences
    return tuple(audience for audience in audiences if isinstance(audience, str)) if isinstance(audiences, list) else ()


class Reference(msgspec.Struct, frozen=True):
    """An object without which a token is invalid."""

    resource: str
    namespace: str
    name: str
    uid: str

    def matches(self, obj: Object | None, now: float) -> bool:
        """Return True for the object itself, unless its deletion was due TERMINATING_S ago: a finalizer may keep it."""
        if not self.uid or text(obj, "metadata", "uid") != self.uid:
            return False
        deleted = at(obj, "metadata", "deletionTimestamp")
        return deleted is None or time_or(deleted) >= now - TERMINATING_S


def references_of(claims: dict[str, Any]) -> list[Reference]:
    """Return the service account and the objects the token is bound to. Raises BadToken."""
    private = claims.get(PRIVATE)
    namespace, name = text(private, "namespace"), text(private, "serviceaccount", "name")
    if not namespace or not name or claims.get("sub") != account_name(namespace, name):
        raise BadToken("the token names no service account")
    references = [Reference("serviceaccounts", namespace, name, text(private, "serviceaccount", "uid"))]
    for claim, resource in RESOURCES.items():
        bound = at(private, claim)
        if bound is not None and (claim != "node" or at(private, "pod") is None):  # a pod's node is informational
            where = "" if claim == "node" else namespace
            references.append(Reference(resource, where, text(bound, "name"), text(bound, "uid")))
    return references


def credential_id(token_id: object) -> str:
    """Return how a token is named in the extra of its user and in the audit log."""
    return f"JTI={token_id}"


def user_of_claims(claims: dict[str, Any]) -> User:
    """Return the service account of valid claims, with node and pod as extra, as upstream."""
    private = claims.get(PRIVATE)
    namespace = text(private, "namespace")
    extra = {CREDENTIAL_ID: credential_id(claims.get("jti", ""))}
    for claim in ("node", "pod"):
        for field in ("name", "uid"):
            if text(private, claim, field):
                extra[f"authentication.kubernetes.io/{claim}-{field}"] = text(private, claim, field)
    return User(
        name=str(claims["sub"]),
        groups=account_groups(namespace),
        uid=text(private, "serviceaccount", "uid"),
        extra=tuple((key, (value,)) for key, value in sorted(extra.items())),
    )
