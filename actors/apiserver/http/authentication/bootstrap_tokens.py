"""Bootstrap tokens: secrets of kube-system that name a user for as long as a machine needs to get a certificate.

A token is `ID.SECRET`, its secret `bootstrap-token-ID` of type bootstrap.kubernetes.io/token. Pure; rules as upstream.
"""

import base64
import binascii
import hmac
import math
import re
from typing import NamedTuple

from actors.apiserver.api.request.user import AUTHENTICATED, User
from protocols.kube.errors import TimeInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, text
from protocols.kube.times import parse_time

NAMESPACE, PREFIX, TYPE = "kube-system", "bootstrap-token-", "bootstrap.kubernetes.io/token"
TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
GROUP = "system:bootstrappers"
EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapToken(NamedTuple):
    """The two parts of a token; only `id` may appear in logs and names."""

    id: str
    secret: str

    @property
    def name(self) -> str:
        """Name of the secret that holds the token."""
        return f"{PREFIX}{self.id}"


def parse_token(text_sent: str) -> BootstrapToken | None:
    """Return the parts of a bearer token; None if it has another form, so that it is none of these."""
    match = TOKEN.fullmatch(text_sent)
    return None if match is None else BootstrapToken(match[1], match[2])


def bootstrap_user(token: BootstrapToken, secret: Object | None, now: float) -> tuple[User, float] | None:
    """Return the user of a token and the time at which it ends; None if the secret does not confirm it."""
    if secret is None or at(secret, "metadata", "deletionTimestamp") or text(secret, "type") != TYPE:
        return None
    known = hmac.compare_digest(_data(secret, "token-secret"), token.secret.encode())
    if not known or _data(secret, "token-id") != token.id.encode():
        return None
    ends = _expiration(secret)
    if ends is None or ends <= now or _data(secret, "usage-bootstrap-authentication") != b"true":
        return None
    groups = _groups(secret)
    return None if groups is None else (User(f"system:bootstrap:{token.id}", (*groups, AUTHENTICATED)), ends)


def _expiration(secret: Object) -> float | None:
    """Return when the token ends; infinite if it never does, None if that cannot be read."""
    stamp = _data(secret, "expiration").decode(errors="replace")
    if not stamp:
        return math.inf
    try:
        return parse_time(stamp)
    except TimeInvalid:
        return None


def _groups(secret: Object) -> tuple[str, ...] | None:
    extra = [group for group in _data(secret, "auth-extra-groups").decode(errors="replace").split(",") if group]
    if not all(EXTRA_GROUP.fullmatch(group) for group in extra):
        return None
    return tuple(dict.fromkeys((GROUP, *sorted(extra))))


def _data(secret: Object, field: str) -> bytes:
    try:
        return base64.b64decode(text(secret, "data", field), validate=True)
    except (ValueError, binascii.Error):
        return b""
