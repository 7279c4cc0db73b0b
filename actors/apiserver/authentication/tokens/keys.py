"""The key that signs service account tokens: ES256 or RS256, whichever ROOT/pki/sa.key is for.

`cryptography` is loaded with the first token, not with the process.
"""

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from protocols.errors import NodeplaneError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

COORDINATE = 32
"""Bytes of a P-256 coordinate, and of each half of an ES256 signature."""


class NoSigningKey(NodeplaneError):
    """Raised when ROOT/pki/sa.key is missing or no P-256 or RSA key: tokens can neither be made nor checked."""

    http: ClassVar[int] = 503
    grpc: ClassVar[str] = "FAILED_PRECONDITION"


def encode_segment(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_segment(text: str) -> bytes:
    """Raises ValueError. The letters are those of URLs alone: the module takes the others for the same ones."""
    if "+" in text or "/" in text:
        raise ValueError("not base64url")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


class SigningKey:
    """One private key and what others need to check its signatures."""

    def __init__(self, pem: bytes, path: Path) -> None:
        """Raises NoSigningKey."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise NoSigningKey(f"{path} is no private key: {error}; delete it and start the plane again") from None
        self._curve: EllipticCurvePrivateKey | None = None
        self._rsa: RSAPrivateKey | None = None
        if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
            self._curve, self.algorithm = key, "ES256"
        elif isinstance(key, rsa.RSAPrivateKey):
            self._rsa, self.algorithm = key, "RS256"
        else:
            raise NoSigningKey(f"{path} must be a P-256 or an RSA key; delete it and start the plane again")
        der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.kid = encode_segment(hashlib.sha256(der).digest())

    def sign(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

        if self._curve is not None:
            r, s = utils.decode_dss_signature(self._curve.sign(message, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(COORDINATE, "big") + s.to_bytes(COORDINATE, "big")
        assert self._rsa is not None
        return self._rsa.sign(message, padding.PKCS1v15(), hashes.SHA256())

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
                self._curve.public_key().verify(pair, message, ec.ECDSA(hashes.SHA256()))
            elif self._rsa is not None:
                self._rsa.public_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True

    def jwk(self) -> dict[str, Any]:
        """The public half, for /openid/v1/jwks."""
        common = {"use": "sig", "kid": self.kid, "alg": self.algorithm}
        if self._curve is not None:
            point = self._curve.public_key().public_numbers()
            x, y = (encode_segment(value.to_bytes(COORDINATE, "big")) for value in (point.x, point.y))
            return {**common, "kty": "EC", "crv": "P-256", "x": x, "y": y}
        assert self._rsa is not None
        numbers = self._rsa.public_key().public_numbers()
        n, e = (encode_segment(v.to_bytes((v.bit_length() + 7) // 8, "big")) for v in (numbers.n, numbers.e))
        return {**common, "kty": "RSA", "n": n, "e": e}


def load_key(path: Path) -> SigningKey:
    """Raises NoSigningKey."""
    try:
        return SigningKey(path.read_bytes(), path)
    except OSError as error:
        raise NoSigningKey(f"service account tokens need {path}: {error.strerror}") from None
