"""A CA that lives as long as a test.

Its certificates carry the key identifiers and key usages that RFC 5280 asks for: Python's default context demands them
since 3.13.
"""

import datetime
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from supervisor.pki.issue import general_name, key_usage

DAY_S = 86400.0
HOSTS = ("localhost", "127.0.0.1")
Key = ec.EllipticCurvePrivateKey


class Authority:
    """Writes `ca.crt` and what it issues into `directory`."""

    def __init__(self, directory: Path, name: str = "test-ca") -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        certificate = self_signed(self._name, self._key, ())
        (directory / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    @property
    def key_pem(self) -> bytes:
        return pem(self._key)

    def issue(
        self,
        file: str,
        common_name: str = "",
        organization: str = "",
        seconds: float = DAY_S,
        hosts: Iterable[str] = HOSTS,
    ) -> None:
        """Write `file`.crt and `file`.key of a server and client; `common_name` is `file` by default.

        `seconds`: how long the certificate is valid.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(common_name or file, organization)
        certificate = (
            _builder(subject, self._name, key, self._key, seconds, hosts)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=False), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        (self._directory / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = self._directory / f"{file}.key"
        private.touch(mode=0o600)
        private.write_bytes(pem(key))


def self_signed(subject: x509.Name, key: Key, hosts: Iterable[str]) -> x509.Certificate:
    """Return the certificate of a CA; with `hosts` a server may present it as its own."""
    return (
        _builder(subject, subject, key, key, DAY_S, hosts)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def write_self_signed(directory: Path, file: str, hosts: Iterable[str]) -> bytes:
    """Write `file`.crt and `file`.key of a server that no CA signed; return the certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = self_signed(_name(file), key, hosts).public_bytes(serialization.Encoding.PEM)
    (directory / f"{file}.crt").write_bytes(made)
    (directory / f"{file}.key").write_bytes(pem(key))
    return made


def pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, signer: Key, seconds: float, hosts: Iterable[str]
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(seconds=seconds))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names := [general_name(host) for host in hosts]:
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made = made.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return made
