"""Compact JSON web tokens of one issuer, signed with its key, checked with all it believes."""

from typing import Any, ClassVar

import msgspec

from actors.apiserver.http.authentication.tokens.keys import Keys, SigningKey, decode_segment, encode_segment
from protocols.errors import NodeplaneError
from protocols.kube.jsons import read_json

LONGEST = 16 * 1024
"""Bytes of the longest token looked at."""


class BadToken(NodeplaneError):
    """Raised when a bearer token proves nothing. Its text, for TokenReview and the log, holds nothing of the token."""

    http: ClassVar[int] = 401
    grpc: ClassVar[str] = "UNAUTHENTICATED"


def looks_signed(token: str) -> bool:
    return token.count(".") == 2


def encode_token(key: SigningKey, claims: dict[str, Any]) -> str:
    header = {"alg": key.public.algorithm, "kid": key.public.kid}
    message = ".".join(encode_segment(msgspec.json.encode(part)) for part in (header, claims))
    return f"{message}.{encode_segment(key.sign(message.encode()))}"


def decode_token(keys: Keys, token: str) -> dict[str, Any]:
    """The claims of a token with a good signature; times and audiences are not looked at. Raises BadToken."""
    if len(token) > LONGEST or not token.isascii():
        raise BadToken("the token is too long or no ASCII text")
    message, _, signature = token.rpartition(".")
    try:
        header, claims = (read_json(decode_segment(part)) for part in message.split("."))
        proof = decode_segment(signature)
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise BadToken("the token is malformed") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise BadToken("the token is malformed")
    fitting = [key for key in keys.of(header.get("kid")) if key.algorithm == header.get("alg")]
    if not fitting:
        raise BadToken("the token was not signed with our key")
    if not any(key.verifies(proof, message.encode()) for key in fitting):
        raise BadToken("invalid signature")
    return claims
