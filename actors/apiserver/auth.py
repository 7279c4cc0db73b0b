"""Who sent a request: the client certificate's common name is the user, its organizations are the groups."""

from collections.abc import Mapping
from typing import Any

from actors.apiserver.errors import Unauthorized
from actors.apiserver.types import User

AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def user_of(certificate: Mapping[str, Any] | None, authorization: str) -> User:
    """Raises Unauthorized for credentials we do not know: a bearer token is never ignored."""
    if certificate:
        return _certified(certificate)
    if authorization:
        raise Unauthorized
    return ANONYMOUS


def _certified(certificate: Mapping[str, Any]) -> User:
    name, groups = "", []
    for pairs in certificate.get("subject", ()):
        for field, value in pairs:
            if field == "commonName":
                name = value
            elif field == "organizationName":
                groups.append(value)
    if not name:
        raise Unauthorized
    return User(name, (*groups, AUTHENTICATED))
