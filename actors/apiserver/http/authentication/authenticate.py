"""Authenticate a request by client certificate (common name = user, organizations = groups), or by bearer token."""

import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from actors.apiserver.api.errors import Unauthorized
from actors.apiserver.api.user import ANONYMOUS, AUTHENTICATED, User
from protocols.errors import NodeplaneError

Subject = tuple[tuple[tuple[str, str], ...], ...]
Proof = TypeVar("Proof")
Prove = Callable[[str], Awaitable[Proof]]
"""Check a bearer token. Raises BadToken, NoSigningKey."""


async def bearer(authorization: str, prove: Prove[Proof]) -> Proof:
    """Raises Unauthorized for credentials we do not know: a bearer token is never ignored."""
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized
    try:
        return await prove(token.strip())
    except NodeplaneError as error:
        if error.http != Unauthorized.http:
            logging.getLogger(__name__).warning("a bearer token cannot be checked: %s", error)
        raise Unauthorized from None


def user_of(certificate: Mapping[str, Any] | None) -> User:
    """Raises Unauthorized for a certificate without a name."""
    if not certificate:
        return ANONYMOUS
    return _named(certificate.get("subject", ()))


@functools.lru_cache(maxsize=1024)
def _named(subject: Subject) -> User:
    name, groups = "", []
    for pairs in subject:
        for field, value in pairs:
            if field == "commonName":
                name = value
            elif field == "organizationName":
                groups.append(value)
    if not name:
        raise Unauthorized
    return User(name, (*groups, AUTHENTICATED))
