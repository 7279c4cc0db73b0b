"""Compact JSON web tokens of one issuer, signed with its key, verified with all keys it believes.

PyJWT signs, verifies and reads the parts; the key and its algorithm are chosen here, never by the token. The claims
are read after the signature has been verified.
"""

from typing import Any, ClassVar

import msgspec

from actors.apiserver.http.authentication.tokens.keys import Keys, SigningKey
from protocols.errors import NodeplaneError
from protocols.kube.jsons import read_json

LONGEST = 16 * 1024
"""Bytes of the longest token that is read."""


class BadToken(NodeplaneError):
    """Raised when a bearer token proves nothing. Its text, for TokenReview and the log, holds nothing of the token."""

    http: ClassVar[int] = 401
    grpc: ClassVar[str] = "UNAUTHENTICATED"


def looks_signed(token: str) -> bool:
    return token.count(".") == 2


def encode_token(key: SigningKey, claims: dict[str, Any]) -> str:
    from jwt import PyJWS

    # An empty `typ` keeps it out of the header, as upstream's tokens have none.
    header = {"typ": "", "kid": key.public.kid}
    return PyJWS().encode(msgspec.json.encode(claims), key.key, key.public.algorithm, header)


def decode_token(keys: Keys, token: str) -> dict[str, Any]:
    """Return the claims of a token with a good signature; their times and audiences are not checked.

    Raises BadToken.
    """
    from jwt import InvalidTokenError

    if len(token) > LONGEST or not token.isascii():
        raise BadToken("the token is too long or no ASCII text")
    try:
        claims = read_json(_verified_payload(keys, token))
    except (ValueError, msgspec.DecodeError, RecursionError, InvalidTokenError):
        raise BadToken("the token is malformed") from None
    if not isinstance(claims, dict):
        raise BadToken("the token is malformed")
    return claims


def _verified_payload(keys: Keys, token: str) -> bytes:
    """Raises BadToken, InvalidTokenError."""
    from jwt import InvalidSignatureError, PyJWS

    jws = PyJWS()
    header = jws.get_unverified_header(token)
    candidates = [key for key in keys.of(header.get("kid")) if key.algorithm == header.get("alg")]
    if not candidates:
        raise BadToken("the token was not signed with our key")
    for key in candidates:
        try:
            payload: bytes = jws.decode(token, key.key, algorithms=[key.algorithm])
        except InvalidSignatureError:
            continue
        return payload
    raise BadToken("invalid signature")
