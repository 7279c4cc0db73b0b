"""Authenticate and authorize callers of the node endpoint as kubelet does.

The API server itself has full access. Anybody else is known by a client certificate or by a bearer token that the API's
TokenReview confirms, and needs the right of a SubjectAccessReview: a verb on a subresource of this node.
"""

import asyncio
import hashlib
import time
from typing import Generic, TypeVar

import msgspec
from aiohttp import web

from actors.podworker.endpoint.errors import AccessUndecided, CallerForbidden, CallerUnknown
from protocols.bounded import BoundedMap
from protocols.kinds.table import Resource
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.process.tls import is_trusted
from protocols.serving.connection import mark_authenticated

API_SERVER = "kube-apiserver-kubelet-client"
"""Common name in the certificate of the API server, which has checked the rights of its own callers."""
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SUBRESOURCES = {
    "stats": ("stats",),
    "metrics": ("metrics",),
    "pods": ("pods", "proxy"),
    "runningpods": ("pods", "proxy"),
    "healthz": ("healthz", "proxy"),
    "configz": ("configz", "proxy"),
}
"""Rights by first path segment, of which one is needed, as 1.36's KubeletFineGrainedAuthz; other paths need `proxy`."""
TOKEN_S = 120.0
ALLOWED_S, DENIED_S = 300.0, 30.0
"""Lifetime of cached reviews: kubelet's defaults. A rejected token is cached as long as a denial."""
MAX_CACHED = 1024
REVIEWS_AT_ONCE, REVIEW_S = 8, 10.0
"""Concurrent reviews, and how long one may take, its wait for others included."""
K = TypeVar("K")
V = TypeVar("V")


class Caller(msgspec.Struct, frozen=True):
    """The user of a request, by certificate or token."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ExpiringCache(Generic[K, V]):
    """At most MAX_CACHED entries, each until its time has passed. Pure: callers pass the time in seconds."""

    def __init__(self) -> None:
        self._entries = BoundedMap[K, tuple[float, V]](MAX_CACHED)

    def get(self, key: K, now: float) -> V | None:
        until, value = self._entries.get(key, (0.0, None))
        return value if until > now else None

    def put(self, key: K, value: V, until: float) -> None:
        self._entries[key] = until, value


class CallerAccess:
    """Asks the API who a caller is (TokenReview) and what it may do (SubjectAccessReview); caches the answers."""

    def __init__(self, client: ApiClient, node: str) -> None:
        self._client = client
        self._node = node
        self._callers = ExpiringCache[bytes, Caller | str]()
        """Callers by the hash of their token; a string for a token that was rejected."""
        self._decisions = ExpiringCache[tuple[Caller, str, str], bool]()
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def check(self, request: web.BaseRequest) -> None:
        """Raises CallerUnknown, CallerForbidden or AccessUndecided."""
        caller = certified(request) or await self._by_token(request)
        if caller.name == API_SERVER:
            return
        mark_authenticated(request)
        verb, subresources = needed_right(request.method, request.path)
        for subresource in subresources:
            if await self._allowed(caller, verb, subresource):
                return
        raise CallerForbidden(
            f"Forbidden (user={caller.name}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(subresources)}])"
        )

    async def _by_token(self, request: web.BaseRequest) -> Caller:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise CallerUnknown("Unauthorized")
        key, now = hashlib.sha256(token.strip().encode()).digest(), time.monotonic()
        caller = self._callers.get(key, now)
        if caller is None:
            caller = await self._review_token(token.strip())
            self._callers.put(key, caller, now + (TOKEN_S if isinstance(caller, Caller) else DENIED_S))
        if isinstance(caller, str) or caller.name == API_SERVER:
            raise CallerUnknown("Unauthorized")
        return caller

    async def _review_token(self, token: str) -> Caller | str:
        review = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": "TokenReview", "spec": {"token": token}}
        try:
            status = await self._review(TOKEN_REVIEWS, review)
        except AccessUndecided:
            raise CallerUnknown("Unauthorized") from None
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return "rejected"
        extra = tuple((name, tuple(values)) for name, values in sorted((user.get("extra") or {}).items()))
        return Caller(user["username"], user.get("uid") or "", tuple(user.get("groups") or ()), extra)

    async def _allowed(self, caller: Caller, verb: str, subresource: str) -> bool:
        key, now = (caller, verb, subresource), time.monotonic()
        decision = self._decisions.get(key, now)
        if decision is None:
            status = await self._review(ACCESS_REVIEWS, access_review(caller, verb, subresource, self._node))
            decision = bool(status.get("allowed"))
            self._decisions.put(key, decision, now + (ALLOWED_S if decision else DENIED_S))
        return decision

    async def _review(self, resource: Resource, review: Object) -> Object:
        try:
            async with asyncio.timeout(REVIEW_S), self._slots:
                status: Object = (await self._client.create(resource, review)).get("status") or {}
        except (ApiError, ApiAway, OSError, TimeoutError) as error:
            raise AccessUndecided(f"Authorization error: the API does not answer a {resource.kind}: {error}") from None
        return status


def certified(request: web.BaseRequest) -> Caller | None:
    """Return the caller whose client certificate the connection has; None without one. Raises CallerUnknown."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    if not is_trusted(transport, time.time()):
        raise CallerUnknown("Unauthorized")
    subject = [pair for pairs in certificate["subject"] for pair in pairs]
    name = next((value for key, value in reversed(subject) if key == "commonName"), "")  # the last one, as Go
    if not name:
        raise CallerUnknown("Unauthorized")
    return Caller(name, groups=tuple(value for key, value in subject if key == "organizationName"))


def needed_right(method: str, path: str) -> tuple[str, tuple[str, ...]]:
    """Return the verb and the subresources of which one is needed."""
    segment = path.strip("/").partition("/")[0]
    return VERBS.get(method, ""), SUBRESOURCES.get(segment, ("proxy",))


def access_review(caller: Caller, verb: str, subresource: str, node: str) -> Object:
    """Return the SubjectAccessReview of a request to the node's proxy, log, stats or metrics."""
    groups = caller.groups if "system:authenticated" in caller.groups else (*caller.groups, "system:authenticated")
    attributes = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": node}
    spec = {
        "resourceAttributes": attributes,
        "user": caller.name,
        "uid": caller.uid,
        "groups": list(groups),
        "extra": {name: list(values) for name, values in caller.extra},
    }
    return {"apiVersion": ACCESS_REVIEWS.api_version, "kind": "SubjectAccessReview", "spec": spec}
