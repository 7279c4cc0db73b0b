"""The continue token: the revision all pages show, and the key the next one starts at. Opaque to clients."""

import base64
import binascii

import msgspec

from actors.apiserver.api.errors.answers import BadRequest
from actors.apiserver.api.numbers import INT64_MAX

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
        raise _invalid(f": {error}") from None
    if token.v != VERSION:
        raise _invalid(f": server does not recognize this encoded version {token.v:.64}")
    if token.rv == 0 or token.rv > INT64_MAX:
        raise _invalid(f": incorrect encoded start resourceVersion (version {VERSION})")
    if not token.start:
        raise _invalid(f": encoded start key empty (version {VERSION})")
    if token.start.startswith("/") or {".", ".."} & set(token.start.split("/")):
        raise _invalid(f": {token.start:.256}")
    return Token(token.v, max(token.rv, LATEST), token.start)


def _invalid(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid{why}")
