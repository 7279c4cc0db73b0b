"""Keys of service account tokens: one that signs, in ROOT/pki/sa.key, and those that are believed, in sa.pub beside it.

ES256 or RS256, whichever a key is for. `cryptography` is loaded with the first token, not with the process.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from protocols.errors import NodeplaneError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

COORDINATE = 32
"""Bytes of a P-256 coordinate, and of each half of an ES256 signature."""
BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)


class NoSigningKey(NodeplaneError):
    """Raised when ROOT/pki/sa.key is missing, or it or sa.pub holds something else than P-256 or RSA keys: tokens can
    neither be made nor checked."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


def encode_segment(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_segment(text: str) -> bytes:
    """Raises ValueError. The letters are those of URLs alone: the module takes the others for the same ones."""
    if "+" in text or "/" in text:
        raise ValueError("not base64url")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


class PublicKey:
    """What checks signatures."""

    def __init__(self, key: Any, path: Path) -> None:
        """Raises NoSigningKey."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        self._curve: EllipticCurvePublicKey | None = None
        self._rsa: RSAPublicKey | None = None
        if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            self._curve, self.algorithm = key, "ES256"
        elif isinstance(key, rsa.RSAPublicKey):
            self._rsa, self.algorithm = key, "RS256"
        else:
            raise _unusable(path, "what it holds is neither a P-256 nor an RSA key")
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.kid = encode_segment(hashlib.sha256(der).digest())

    def verifies(self, signature: bytes, message: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

        try:
            if self._curve is not None:
                if len(signature) != 2 * COORDINATE:
                    return False
                halves = signature[:COORDINATE], signature[COORDINATE:]
                pair = utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in halves))
                self._curve.verify(pair, message, ec.ECDSA(hashes.SHA256()))
            elif self._rsa is not None:
                self._rsa.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True

    def jwk(self) -> dict[str, Any]:
        """For /openid/v1/jwks."""
        common = {"use": "sig", "kid": self.kid, "alg": self.algorithm}
        if self._curve is not None:
            point = self._curve.public_numbers()
            x, y = (encode_segment(value.to_bytes(COORDINATE, "big")) for value in (point.x, point.y))
            return {**common, "kty": "EC", "crv": "P-256", "x": x, "y": y}
        assert self._rsa is not None
        numbers = self._rsa.public_numbers()
        n, e = (encode_segment(v.to_bytes((v.bit_length() + 7) // 8, "big")) for v in (numbers.n, numbers.e))
        return {**common, "kty": "RSA", "n": n, "e": e}


class SigningKey:
    """One private key, and its public half."""

    def __init__(self, pem: bytes, path: Path) -> None:
        """Raises NoSigningKey."""
        from cryptography.hazmat.primitives.asymmetric import ec

        key = _private(pem, path)
        self.public = PublicKey(key.public_key(), path)
        self._curve: EllipticCurvePrivateKey | None = key if isinstance(key, ec.EllipticCurvePrivateKey) else None
        self._rsa: RSAPrivateKey | None = None if self._curve is not None else key

    def sign(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

        if self._curve is not None:
            r, s = utils.decode_dss_signature(self._curve.sign(message, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(COORDINATE, "big") + s.to_bytes(COORDINATE, "big")
        assert self._rsa is not None
        return self._rsa.sign(message, padding.PKCS1v15(), hashes.SHA256())


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
