"""The gate: who sends a request, for whom they speak, and what is noted of it afterwards."""

import time

import msgspec
from aiohttp import web

from actors.apiserver.authentication.authenticate import authenticate
from actors.apiserver.authentication.impersonate import impersonated
from actors.apiserver.authentication.tokens.authority import TokenAuthority
from actors.apiserver.authentication.user import User
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.request.audit import AuditLog, Entry, is_audited
from actors.apiserver.request.target import Target


class Identity(msgspec.Struct, frozen=True):
    """`user` is who acts; `author` who proved to be somebody, the same unless impersonating."""

    user: User
    author: User


class Gate(msgspec.Struct, frozen=True):
    authorizer: Authorizer
    authority: TokenAuthority
    audit: AuditLog

    async def identify(self, http: web.BaseRequest) -> Identity:
        """Raises Unauthorized; Forbidden and BadRequest for headers that impersonate."""
        transport = http.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        author = await authenticate(certificate, http.headers.get("Authorization", ""), self._prove)
        return Identity(impersonated(self.authorizer, author, http.headers, http.path), author)

    async def _prove(self, token: str) -> User:
        return (await self.authority.prove(token)).user

    def note(
        self, http: web.BaseRequest, identity: Identity | None, target: Target | None, verb: str, outcome: "Outcome"
    ) -> None:
        if not is_audited(verb, target):
            return
        identity = identity or Identity(User(), User())
        self.audit.note(
            Entry(
                verb=verb,
                path=http.path,
                user=identity.author,
                acts_as=identity.user,
                target=target,
                code=outcome.code,
                received=time.time() - outcome.seconds,
                seconds=outcome.seconds,
                agent=_shown(http.headers.get("User-Agent", "")),
                address=http.remote or "",
            )
        )


def _shown(agent: str) -> str:
    """What of a client's name is noted: not too much, and text in any case."""
    told = agent[:256]
    return told if told.isascii() else told.encode(errors="replace").decode()


class Outcome(msgspec.Struct, frozen=True):
    code: int
    seconds: float
