"""Makes and checks service account tokens, with the keys of now and the replicas at hand."""

import asyncio
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.user import User
from actors.apiserver.http.authentication.tokens.claims import (
    ISSUER,
    Grant,
    audiences_of,
    check_times,
    make_claims,
    references_of,
    user_of_claims,
)
from actors.apiserver.http.authentication.tokens.file import TokenFile
from actors.apiserver.http.authentication.tokens.jwt import (
    LONGEST,
    BadToken,
    decode_token,
    encode_token,
    looks_signed,
)
from actors.apiserver.http.authentication.tokens.keys import Keys, believed_file, load_keys
from protocols.process.tls import Renewed

REMEMBERED = 1024
"""Tokens whose signature was checked; all else is checked each time."""


class AuthorityOptions(msgspec.Struct, frozen=True):
    key: Path
    """Signs; the file of the keys that are believed stands beside it. Both may be replaced at any time."""
    tokens: Path
    """The static token file; need not exist."""
    shown: Callable[[str, str, str], Obj | None]
    """The object of (resource, namespace, name) as the replica shows it."""
    stored: Callable[[str, str, str], Awaitable[Obj | None]]
    """The same as the store has it: asked when the replica denies."""


class Proven(msgspec.Struct, frozen=True):
    """Whom a token proves, and for which of the audiences asked for."""

    user: User
    audiences: tuple[str, ...]
    expires: float = math.inf
    """Wall-clock time; tokens of the static file do not end."""


class TokenAuthority:
    def __init__(self, options: AuthorityOptions) -> None:
        self._options = options
        self._file = TokenFile(options.tokens)
        self._keys: Renewed[Keys] | None = None
        self._used: Keys | None = None
        """What was checked was checked with these."""
        self._checked: OrderedDict[bytes, dict[str, Any]] = OrderedDict()

    async def keys(self) -> Keys:
        """Raises NoSigningKey."""
        if self._keys is None:
            self._keys = await asyncio.to_thread(self._load)
        keys = self._keys.now()
        if keys is not self._used:
            self._used = keys
            self._checked.clear()
        return keys

    def _load(self) -> Renewed[Keys]:
        path = self._options.key
        return Renewed((path, believed_file(path)), lambda: load_keys(path), "keys of service account tokens")

    async def issue(self, grant: Grant) -> tuple[str, float]:
        """A new token and when it ends. Raises NoSigningKey."""
        now = time.time()
        return encode_token((await self.keys()).signing, make_claims(grant, now)), int(now) + grant.seconds

    async def prove(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> Proven:
        """Raises BadToken, NoSigningKey."""
        if len(token) > LONGEST:
            raise BadToken("the token is too long")
        user = self._file.find(token)
        if user is not None:
            return Proven(user, audiences)
        if not looks_signed(token):
            raise BadToken("the token is unknown")
        claims = await self._claims(token)
        check_times(claims, time.time())
        meant = tuple(each for each in audiences_of(claims) if each in audiences)
        if not meant:
            raise BadToken(f"token audiences {list(audiences_of(claims))} is invalid for {list(audiences)}")
        await self._check_objects(claims)
        return Proven(user_of_claims(claims), meant, float(claims["exp"]))

    async def _claims(self, token: str) -> dict[str, Any]:
        keys = await self.keys()
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = self._checked.get(digest)
        if found is None:
            found = self._checked[digest] = decode_token(keys, token)
            if len(self._checked) > REMEMBERED:
                self._checked.popitem(last=False)
        else:
            self._checked.move_to_end(digest)
        return found

    async def _check_objects(self, claims: dict[str, Any]) -> None:
        """Check against the store what the replica does not show (yet)."""
        for reference in references_of(claims):
            where = reference.resource, reference.namespace, reference.name
            if reference.held_by(self._options.shown(*where)):
                continue
            if not reference.held_by(await self._options.stored(*where)):
                raise BadToken(f"the {reference.resource[:-1]} of the token no longer exists")
