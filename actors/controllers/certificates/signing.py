"""Sign certificate requests with the plane's CA, whose key is read for each signature and never retained."""

import base64
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from actors.controllers.certificates.rules import parse_request, seconds_of, usages_of
from protocols.errors import NodeplaneError
from protocols.kube.meta import Object
from protocols.process.authority_key import authority_key_identifier

if TYPE_CHECKING:
    from cryptography import x509

BACKDATED = datetime.timedelta(minutes=5)
SHORT_S = 8 * 3600
"""Certificates of at most this validity are not shortened by the backdating."""


class SigningFailed(NodeplaneError):
    """Raised when there is no CA to sign with, or its key cannot be used."""


def sign(csr: Object, ca: Path, key: Path, now: datetime.datetime) -> str:
    """Return the certificate of a request that its signer's rules accept, as base64 of PEM.

    Blocks for some milliseconds. Raises SigningFailed, RequestInvalid.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        authority = x509.load_pem_x509_certificate(ca.read_bytes())
        signer = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SigningFailed(f"the CA's key cannot be read: {error}") from None
    if not isinstance(signer, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise SigningFailed("the CA's key is neither ECDSA nor RSA")
    if authority.not_valid_after_utc <= now:
        raise SigningFailed("the CA has expired")
    certificate = _builder(csr, authority, now).sign(signer, hashes.SHA256())
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()


def _builder(csr: Object, authority: "x509.Certificate", now: datetime.datetime) -> "x509.CertificateBuilder":
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    request, usages, seconds = parse_request(csr), usages_of(csr), seconds_of(csr)
    ends = now + datetime.timedelta(seconds=seconds) - (BACKDATED if seconds > SHORT_S else datetime.timedelta())
    purposes = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(request.subject))
        .issuer_name(authority.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(min(ends, authority.not_valid_after_utc))
        .add_extension(_key_usage(usages), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purposes[usage] for usage in sorted(usages & purposes.keys())]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(authority_key_identifier(authority), critical=False)
    )
    names = _alternative_names(request)
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else builder


def _subject(asked: "x509.Name") -> "x509.Name":
    """Return what Go's signer retains of a subject: the last common name, which the rules checked, and no other one.

    A server that reads the first common name would take the certificate for another user's.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    kinds = ("COUNTRY_NAME", "ORGANIZATION_NAME", "ORGANIZATIONAL_UNIT_NAME", "LOCALITY_NAME", "STATE_OR_PROVINCE_NAME",
             "STREET_ADDRESS", "POSTAL_CODE", "SERIAL_NUMBER")  # fmt: skip
    kept = [attribute for kind in kinds for attribute in asked.get_attributes_for_oid(getattr(NameOID, kind))]
    return x509.Name([*kept, *asked.get_attributes_for_oid(NameOID.COMMON_NAME)[-1:]])


def _alternative_names(request: "x509.CertificateSigningRequest") -> "list[x509.GeneralName]":
    """Return the names of those kinds that the rules checked."""
    from cryptography import x509

    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    kinds = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
    return [name for name in names if isinstance(name, kinds)]


def _key_usage(usages: frozenset[str]) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature="digital signature" in usages,
        key_encipherment="key encipherment" in usages,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def expiry(certificate: str) -> float | None:
    """Return the Unix time at which an issued certificate ends; None if it cannot be read."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(base64.b64decode(certificate)).not_valid_after_utc.timestamp()
    except (ValueError, TypeError, x509.InvalidVersion):
        return None
