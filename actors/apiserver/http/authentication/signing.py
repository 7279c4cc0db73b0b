"""Keys of service account tokens, and the tokens they sign: JSON web tokens (JWT) in compact form.

- ROOT/pki/sa.key signs. Its public half and the keys of sa.pub beside it verify: ES256 or RS256, by the kind of key.
- PyJWT signs, verifies and parses. The key and its algorithm are chosen here, never by the token.
- `cryptography` and `jwt` are imported with the first token, since loading them takes longer than starting a process.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from protocols.errors import NodeplaneError
from protocols.kube.jsons import read_json

BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)
PARAMETERS = ("kty", "crv", "x", "y", "n", "e")
"""Members of a JWK that hold the key itself."""


class NoSigningKey(NodeplaneError, http=503, grpc="FAILED_PRECONDITION"):
    """Raised when sa.key is missing, or it or sa.pub holds keys other than P-256 and RSA.

    Tokens can then neither be issued nor checked.
    """


class PublicKey:
    """A key that verifies signatures, bound to the only algorithm it may be used with."""

    def __init__(self, key: Any, path: Path) -> None:
        """Raises NoSigningKey."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
        from jwt.utils import base64url_encode

        if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            self.algorithm = "ES256"
        elif isinstance(key, rsa.RSAPublicKey):
            self.algorithm = "RS256"
        else:
            raise _unusable(path, "what it holds is neither a P-256 nor an RSA key")
        self.key = key
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.kid = base64url_encode(hashlib.sha256(der).digest()).decode()

    def jwk(self) -> dict[str, Any]:
        """For /openid/v1/jwks."""
        from jwt import get_algorithm_by_name

        jwk = get_algorithm_by_name(self.algorithm).to_jwk(self.key, as_dict=True)
        parameters = {name: jwk[name] for name in PARAMETERS if name in jwk}
        return {"use": "sig", "kid": self.kid, "alg": self.algorithm, **parameters}


class SigningKey:
    """One private key, and its public half."""

    def __init__(self, pem: bytes, path: Path) -> None:
        """Raises NoSigningKey."""
        self.key = _private(pem, path)
        self.public = PublicKey(self.key.public_key(), path)


class Keys:
    """The signing key, and all keys that verify: its public half and those of sa.pub."""

    def __init__(self, signing: SigningKey, others: Iterable[PublicKey] = ()) -> None:
        self.signing = signing
        self.believed = {key.kid: key for key in (signing.public, *others)}

    def of(self, kid: Any) -> tuple[PublicKey, ...]:
        """Return the keys that may have signed a token whose header names `kid`."""
        if kid is None:
            return tuple(self.believed.values())
        key = self.believed.get(kid) if isinstance(kid, str) else None
        return () if key is None else (key,)


def load_keys(signing: Path) -> Keys:
    """Raises NoSigningKey. A file of public keys need not exist."""
    return Keys(load_key(signing), _load_public(believed_file(signing)))


def believed_file(signing: Path) -> Path:
    """Return the path of the file whose keys verify tokens beside the signing key."""
    return signing.with_suffix(".pub")


def load_key(path: Path) -> SigningKey:
    """Raises NoSigningKey."""
    try:
        return SigningKey(path.read_bytes(), path)
    except OSError as error:
        raise NoSigningKey(f"service account tokens need {path}: {error.strerror}") from None


def _load_public(path: Path) -> list[PublicKey]:
    """Read all PEM blocks: public keys, or private ones for their public half."""
    try:
        blocks = list(BLOCK.finditer(path.read_bytes()))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unusable(path, f"it cannot be read: {error.strerror}") from None
    if not blocks:
        raise _unusable(path, "it holds no key in PEM")
    return [PublicKey(_public(block[0], b"PRIVATE" in block[1], path), path) for block in blocks]


def _public(pem: bytes, private: bool, path: Path) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    if private:
        return _private(pem, path).public_key()
    try:
        return serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _unusable(path, str(error)) from None


def _private(pem: bytes, path: Path) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(path, f"it is no private key: {error}") from None


def _unusable(path: Path, why: str) -> NoSigningKey:
    return NoSigningKey(f"{path} cannot be used: {why}; delete it and start the plane again")


LONGEST_TOKEN = 16 * 1024
"""Bytes of the longest token that is read."""


class BadToken(NodeplaneError, http=401, grpc="UNAUTHENTICATED"):
    """Raised when a bearer token is invalid. Its text, for TokenReview and the log, holds no part of the token."""


def looks_signed(token: str) -> bool:
    """Return True for a text of three parts; others are bootstrap tokens, static ones or none."""
    return token.count(".") == 2


def encode_token(key: SigningKey, claims: dict[str, Any]) -> str:
    """Sign claims; loads PyJWT."""
    from jwt import PyJWS

    # An empty `typ` keeps it out of the header, as upstream's tokens have none.
    header = {"typ": "", "kid": key.public.kid}
    return PyJWS().encode(msgspec.json.encode(claims), key.key, key.public.algorithm, header)


def decode_token(keys: Keys, token: str) -> dict[str, Any]:
    """Return the claims of a token with a good signature; their times and audiences are not checked.

    Raises BadToken.
    """
    from jwt import InvalidTokenError

    if len(token) > LONGEST_TOKEN or not token.isascii():
        raise BadToken("the token is too long or no ASCII text")
    try:
        claims = read_json(_verified_payload(keys, token))
    except (ValueError, InvalidTokenError):
        raise BadToken("the token is malformed") from None
    if not isinstance(claims, dict):
        raise BadToken("the token is malformed")
    return claims


def _verified_payload(keys: Keys, token: str) -> bytes:
    """Return the encoded claims. Raises BadToken, InvalidTokenError."""
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
