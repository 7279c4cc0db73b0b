"""The continue token: the revision all pages show, and the key the next one starts at. Opaque to clients."""

import base64
import binascii

import msgspec

from actors.apiserver.errors import BadRequest

VERSION = "meta.k8s.io/v1"
LATEST = -1
"""In place of a revision: go on from the key, at whatever is current."""


class Token(msgspec.Struct, frozen=True):
    v: str
    rv: int
    start: str


def encode_token(rv: int, start: str) -> str:
    raw = msgspec.json.encode(Token(VERSION, rv, start))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_token(text: str) -> Token:
    """Raises BadRequest; the key cannot leave the resource's prefix, it is only ever appended to it."""
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=Token)
    except (msgspec.DecodeError, binascii.Error, UnicodeError, ValueError) as error:
        raise BadRequest(f"invalid continue token: {error}") from None
    if token.v != VERSION or not token.start or token.start.startswith("/") or ".." in token.start.split("/"):
        raise BadRequest("invalid continue token: not a token of this server")
    if token.rv < LATEST or token.rv == 0:
        raise BadRequest("invalid continue token: no usable revision")
    return token
