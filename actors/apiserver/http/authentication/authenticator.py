"""Authenticate a request: by client certificate or bearer token, then the user it impersonates.

Also hands finished requests to the audit log, since it knows the authenticated user of rejected ones, too.
"""

import base64
import functools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from aiohttp import hdrs, web

from actors.apiserver.api.errors import TooManyRequests, Unauthorized
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import (
    ANONYMOUS,
    AUTHENTICATED,
    CREDENTIAL_ID,
    User,
)
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.http.authentication.impersonation import impersonated
from actors.apiserver.http.authentication.token_authority import TokenAuthority
from actors.apiserver.http.connection.responses import AUDIT_ID
from actors.apiserver.http.telemetry.audit import ANNOTATIONS, FAULT, NAME_LIMIT, AuditLog, Entry, Subject, shortened
from protocols.errors import NodeplaneError
from protocols.kube.errors import StatusError
from protocols.kube.meta import new_uid
from protocols.process.tls import expiry, is_trusted
from protocols.serving.connection import mark_authenticated
from protocols.serving.tls_transport import FINGERPRINT
from protocols.streams.accepting import is_websocket_request

CertificateSubject = tuple[tuple[tuple[str, str], ...], ...]
Proof = TypeVar("Proof")
Prove = Callable[[str], Awaitable[Proof]]
"""Check a bearer token. Raises BadToken, NoSigningKey."""


async def bearer(authorization: str, prove: Prove[Proof]) -> Proof:
    """Return the proof of an Authorization header.

    Raises Unauthorized, also for other schemes: no credential is ignored. Raises TooManyRequests if `prove` does:
    machines that join a cluster give up after 401.
    """
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized
    try:
        return await prove(token.strip())
    except NodeplaneError as error:
        if isinstance(error, TooManyRequests):
            raise
        if error.http != Unauthorized.http:
            logging.getLogger(__name__).warning("a bearer token cannot be checked: %s", error)
        raise Unauthorized from None


TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
"""Prefix of the websocket protocol that stands for a bearer token; it is offered beside a real one."""


def authorization_of(http: web.BaseRequest) -> str:
    """Return the Authorization header, or what a websocket's handshake has instead: browsers set no headers.

    Raises Unauthorized.
    """
    given, offered = http.headers.get(hdrs.AUTHORIZATION, ""), http.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, [])
    if given or not any(TOKEN_PROTOCOL in value for value in offered) or not is_websocket_request(http):
        return given
    protocols = [protocol.strip() for value in offered for protocol in value.split(",")]
    tokens = [name.removeprefix(TOKEN_PROTOCOL) for name in protocols if name.startswith(TOKEN_PROTOCOL)]
    if len(tokens) != 1 or len(protocols) == 1:
        raise Unauthorized
    try:
        return f"Bearer {base64.b64decode(tokens[0] + '=' * (-len(tokens[0]) % 4), b'-_', validate=True).decode()}"
    except ValueError:
        raise Unauthorized from None


UID_FIELD = "1.3.6.1.4.1.57683.2"
"""Field of a subject that upstream has defined for the user's uid."""


def user_of(certificate: Mapping[str, Any] | None, fingerprint: str = "") -> User:
    """Return the user that a certificate names; `fingerprint` is the SHA-256 of its DER.

    Raises Unauthorized for a certificate without a name, or with an empty uid or several.
    """
    if not certificate:
        return ANONYMOUS
    return _user_of_subject(certificate.get("subject", ()), fingerprint)


@functools.lru_cache(maxsize=1024)
def _user_of_subject(subject: CertificateSubject, fingerprint: str) -> User:
    name, groups, uids = "", [], []
    for pairs in subject:
        for field, value in pairs:
            if field == "commonName":
                name = value
            elif field == "organizationName":
                groups.append(value)
            elif field == UID_FIELD:
                uids.append(value)
    if not name or len(uids) > 1 or "" in uids:
        raise Unauthorized
    extra = ((CREDENTIAL_ID, (f"X509SHA256={fingerprint}",)),) if fingerprint else ()
    return User(name, (*groups, AUTHENTICATED), "".join(uids), extra)


AUTHOR = web.RequestKey("author", User)
"""Authenticated user of a request whose impersonation was rejected, for the audit log."""


class Identity(msgspec.Struct, frozen=True):
    """`user` is the one requests are authorized for, `author` the authenticated one: they differ by impersonation."""

    user: User
    author: User
    expires: float = math.inf
    """Wall-clock time at which the author's certificate or token ends."""
    constraint: str = ""
    """The verb that allowed a constrained impersonation."""


class Authenticator(msgspec.Struct, frozen=True):
    """Finds the user of a request; each way of authentication has a method."""

    authorizer: Authorizer
    authority: TokenAuthority
    audit: AuditLog

    def certified(self, http: web.BaseRequest, request: Callable[[], Attributes]) -> Identity | None:
        """Authenticate by client certificate, or as anonymous; None if a bearer token has to be checked.

        `request` returns what is asked for. Raises Unauthorized, and Forbidden or BadRequest for Impersonate-* headers.
        """
        transport = http.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if not certificate and authorization_of(http):
            return None
        if not is_trusted(transport, time.time()):
            raise Unauthorized
        fingerprint = transport.get_extra_info(FINGERPRINT, "") if transport is not None else ""
        return self._identity(http, request, user_of(certificate, fingerprint), expiry(certificate))

    async def proven(self, http: web.BaseRequest, request: Callable[[], Attributes]) -> Identity:
        """Authenticate by bearer token. Raises as `certified`."""
        proven = await bearer(authorization_of(http), self.authority.prove)
        mark_authenticated(http)
        return self._identity(http, request, proven.user, proven.expires)

    def _identity(
        self, http: web.BaseRequest, request: Callable[[], Attributes], author: User, expires: float
    ) -> Identity:
        try:
            user, constraint = impersonated(self.authorizer, author, http.headers, request)
        except StatusError:
            http[AUTHOR] = author  # the audit log names the author of a rejected attempt
            raise
        return Identity(user, author, expires, constraint)

    def note(
        self,
        http: web.BaseRequest,
        identity: Identity | None,
        subject: Subject,
        verb: str,
        code: int,
        seconds: float,
    ) -> None:
        if identity is None:
            author = http.get(AUTHOR, ANONYMOUS)
            identity = Identity(author, author)
        agent, address = shortened(http.headers.get(hdrs.USER_AGENT, ""), NAME_LIMIT), http.remote or ""
        began = time.time() - seconds
        annotations, audit_id = http.get(ANNOTATIONS), http.get(AUDIT_ID) or new_uid()
        whose, when = (identity.author, identity.user), (began, seconds)
        ends = identity.constraint, http.get(FAULT)
        self.audit.note(Entry(verb, subject, *whose, code, *when, agent, address, annotations, audit_id, *ends))
