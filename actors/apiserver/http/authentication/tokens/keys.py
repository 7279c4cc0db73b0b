"""Keys of service account tokens: one that signs, in ROOT/pki/sa.key, and those that are believed, in sa.pub beside it.

ES256 or RS256, whichever a key is for. `cryptography` and `jwt` are loaded with the first token, not with the process.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from protocols.errors import NodeplaneError

BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)
PARAMETERS = ("kty", "crv", "x", "y", "n", "e")
"""Members of a JWK that hold the key itself."""


class NoSigningKey(NodeplaneError):
    """Raised when ROOT/pki/sa.key is missing, or it or sa.pub holds something else than P-256 or RSA keys: tokens can
    neither be made nor checked."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


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

        made = get_algorithm_by_name(self.algorithm).to_jwk(self.key, as_dict=True)
        found = {name: made[name] for name in PARAMETERS if name in made}
        return {"use": "sig", "kid": self.kid, "alg": self.algorithm, **found}


class SigningKey:
    """One private key, and its public half."""

    def __init__(self, pem: bytes, path: Path) -> None:
        """Raises NoSigningKey."""
        self.key = _private(pem, path)
        self.public = PublicKey(self.key.public_key(), path)


class Keys:
    """The key that signs, and all that are believed: its public half, and what else sa.pub holds."""

    def __init__(self, signing: SigningKey, others: Iterable[PublicKey] = ()) -> None:
        self.signing = signing
        self.believed = {key.kid: key for key in (signing.public, *others)}

    def of(self, kid: Any) -> tuple[PublicKey, ...]:
        """Those that may have signed a token whose header names `kid`."""
        if kid is None:
            return tuple(self.believed.values())
        found = self.believed.get(kid) if isinstance(kid, str) else None
        return () if found is None else (found,)


def load_keys(signing: Path) -> Keys:
    """Raises NoSigningKey. A file of public keys need not exist."""
    return Keys(load_key(signing), _load_public(believed_file(signing)))


def believed_file(signing: Path) -> Path:
    return signing.with_suffix(".pub")


def load_key(path: Path) -> SigningKey:
    """Raises NoSigningKey."""
    try:
        return SigningKey(path.read_bytes(), path)
    except OSError as error:
        raise NoSigningKey(f"service account tokens need {path}: {error.strerror}") from None


def _load_public(path: Path) -> list[PublicKey]:
    """One PEM block after the other, of public keys or of private ones, whose public half counts."""
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
