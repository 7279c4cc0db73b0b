"""The gate: who sends a request, for whom they speak, and what is noted of it afterwards."""

import math
import time

import msgspec
from aiohttp import hdrs, web

from actors.apiserver.api.errors import Unauthorized
from actors.apiserver.api.user import ANONYMOUS, User
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.http.authentication.authenticate import bearer, user_of
from actors.apiserver.http.authentication.impersonate import impersonated
from actors.apiserver.http.authentication.tokens.authority import TokenAuthority
from actors.apiserver.http.telemetry.audit import NAME_LIMIT, AuditLog, Entry, Subject, shortened
from protocols.kube.errors import StatusError
from protocols.process.tls import expiry, is_trusted
from protocols.serving import mark_authenticated

AUTHOR = web.RequestKey("author", User)
"""Who proved to be somebody and must not act as whom the request asks."""


class Identity(msgspec.Struct, frozen=True):
    """`user` is who acts; `author` who proved to be somebody, the same unless impersonating."""

    user: User
    author: User
    expires: float = math.inf
    """Wall-clock time at which the author's certificate or token ends."""


class Gate(msgspec.Struct, frozen=True):
    authorizer: Authorizer
    authority: TokenAuthority
    audit: AuditLog

    def certified(self, http: web.BaseRequest) -> Identity | None:
        """By a certificate, or by nothing at all; None where a bearer token has to be proven. Raises Unauthorized;
        Forbidden and BadRequest for headers that impersonate."""
        transport = http.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if not certificate and http.headers.get(hdrs.AUTHORIZATION):
            return None
        if not is_trusted(transport, time.time()):
            raise Unauthorized
        return self._speaking(http, user_of(certificate), expiry(certificate))

    async def proven(self, http: web.BaseRequest) -> Identity:
        """By a bearer token. Raises as `certified`."""
        proven = await bearer(http.headers.get(hdrs.AUTHORIZATION, ""), self.authority.prove)
        mark_authenticated(http)
        return self._speaking(http, proven.user, proven.expires)

    def _speaking(self, http: web.BaseRequest, author: User, expires: float) -> Identity:
        try:
            user = impersonated(self.authorizer, author, http.headers, http.path)
        except StatusError:
            http[AUTHOR] = author  # who tried is noted all the same
            raise
        return Identity(user, author, expires)

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
        self.audit.note(Entry(verb, subject, identity.author, identity.user, code, began, seconds, agent, address))
