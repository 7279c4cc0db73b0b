"""Issue and check bearer tokens: signed ones of service accounts, bootstrap tokens, those of the static token file.

The static file is ROOT/pki/tokens.csv, `token,user,uid,"group1,group2"`, one a line; its mode must be 0600.
"""

import asyncio
import csv
import errno
import hashlib
import logging
import math
import os
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from actors.apiserver.api.request.user import User
from actors.apiserver.http.authentication.bootstrap_tokens import (
    NAMESPACE,
    BootstrapToken,
    bootstrap_user,
    parse_token,
)
from actors.apiserver.http.authentication.signing import (
    LONGEST_TOKEN,
    BadToken,
    Keys,
    believed_file,
    decode_token,
    encode_token,
    load_keys,
    looks_signed,
)
from actors.apiserver.http.authentication.token_claims import (
    ISSUER,
    Grant,
    audiences_of,
    check_times,
    make_claims,
    references_of,
    user_of_claims,
)
from protocols.bounded import BoundedMap
from protocols.kube.meta import Object
from protocols.process.tls import Renewed

FILE_LIMIT = 1024 * 1024
FOR_A_MOMENT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing of the file: the next request reads it again."""


class TokenFile:
    """The static token file, read again after a change. A file with another mode, or malformed, holds no tokens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[bytes, User] = {}

    def find(self, token: str) -> User | None:
        """Blocks for one stat, and a small read after a change."""
        self._refresh()
        return self._users.get(_digest(token))

    def _refresh(self) -> None:
        try:
            state = os.stat(self._path)
        except OSError:
            self._seen, self._users = None, {}
            return
        seen = (state.st_mtime_ns, state.st_size, state.st_mode)
        if seen == self._seen:
            return
        self._seen, self._users = seen, {}
        try:
            self._users = read_tokens(self._path, state)
        except (OSError, ValueError, csv.Error) as error:
            logging.getLogger(__name__).error("tokens of %s are not used: %s", self._path, error)
            if getattr(error, "errno", 0) in FOR_A_MOMENT:
                self._seen = None


def read_tokens(path: Path, state: os.stat_result) -> dict[bytes, User]:
    """Users by digest of their token. Raises ValueError, csv.Error, OSError."""
    if not stat.S_ISREG(state.st_mode):
        raise ValueError("it is no regular file")
    if state.st_mode & 0o077:
        raise ValueError(f"its mode is {state.st_mode & 0o777:04o}, must be 0600")
    if state.st_size > FILE_LIMIT:
        raise ValueError(f"it is larger than {FILE_LIMIT} bytes")
    users = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0].strip() or not row[1].strip():
            raise ValueError(f"line {number} is not token,user,uid[,groups]")
        groups = tuple(group.strip() for group in (row[3] if len(row) > 3 else "").split(",") if group.strip())
        users[_digest(row[0].strip())] = User(row[1].strip(), (*groups, "system:authenticated"), row[2].strip())
    return users


def _digest(token: str) -> bytes:
    """Key of a token in the table, so that lookup times reveal nothing about the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


CACHED_TOKENS = 1024
"""Tokens whose signature is cached as valid; times, audiences and objects are checked at each request."""


class AuthorityOptions(msgspec.Struct, frozen=True):
    """Files of keys and tokens, and how to look up the objects that tokens are bound to."""

    key: Path
    """Path of the signing key; sa.pub is beside it. Both may be replaced at any time."""
    tokens: Path
    """The static token file; need not exist."""
    shown: Callable[[str, str, str], Object | None]
    """Returns the object of (resource, namespace, name) from the replica."""
    stored: Callable[[str, str, str], Awaitable[Object | None]]
    """The same from the store, for objects that the replica does not have (yet)."""
    secrets_known: Callable[[], Awaitable[None]]
    """Waits a moment for the first snapshot of secrets. Raises TooManyRequests without it."""


class Proven(msgspec.Struct, frozen=True):
    """The user of a valid token, and the audiences it is valid for."""

    user: User
    audiences: tuple[str, ...]
    expires: float = math.inf
    """Wall-clock time; tokens of the static file do not end."""


class TokenAuthority:
    """Issues and checks bearer tokens; checked signatures are cached until a key changes."""

    def __init__(self, options: AuthorityOptions) -> None:
        self._options = options
        self._file = TokenFile(options.tokens)
        self._keys: Renewed[Keys] | None = None
        self._used: Keys | None = None
        """Keys that the cached signatures were checked with."""
        self._checked = BoundedMap[bytes, dict[str, Any]](CACHED_TOKENS)

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
        """Return a new token and its expiry time. Raises NoSigningKey."""
        now = time.time()
        return encode_token((await self.keys()).signing, make_claims(grant, now)), int(now) + grant.seconds

    async def prove(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> Proven:
        """Raises BadToken, NoSigningKey, and TooManyRequests while bootstrap tokens are not known."""
        if len(token) > LONGEST_TOKEN:
            raise BadToken("the token is too long")
        user, bootstrap = self._file.find(token), parse_token(token)
        if (user or bootstrap) and ISSUER not in audiences:
            raise BadToken("the token names no audience, so it is for the API server only")
        if user is not None:
            return Proven(user, (ISSUER,))
        if bootstrap is not None:
            return await self._bootstrap(bootstrap)
        if not looks_signed(token):
            raise BadToken("the token is unknown")
        claims = await self._claims(token)
        check_times(claims, time.time())
        meant = tuple(audience for audience in audiences_of(claims) if audience in audiences)
        if not meant:
            raise BadToken(f"token audiences {list(audiences_of(claims))} is invalid for {list(audiences)}")
        await self._check_objects(claims)
        return Proven(user_of_claims(claims), meant, float(claims["exp"]))

    async def _bootstrap(self, token: BootstrapToken) -> Proven:
        """Raises BadToken. Only the replica is asked: unknown tokens must not cost a read of the store."""
        await self._options.secrets_known()
        proof = bootstrap_user(token, self._options.shown("secrets", NAMESPACE, token.name), time.time())
        if proof is None:
            raise BadToken("the bootstrap token is unknown or has expired")
        return Proven(proof[0], (ISSUER,), proof[1])

    async def _claims(self, token: str) -> dict[str, Any]:
        keys = await self.keys()
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        return self._checked.get_or_make(digest, lambda: decode_token(keys, token))

    async def _check_objects(self, claims: dict[str, Any]) -> None:
        """Check that the account and the bound objects still exist. Raises BadToken."""
        now = time.time()
        for reference in references_of(claims):
            where = reference.resource, reference.namespace, reference.name
            if reference.matches(self._options.shown(*where), now):
                continue
            if not reference.matches(await self._options.stored(*where), now):
                raise BadToken(f"the {reference.resource[:-1]} of the token no longer exists")
