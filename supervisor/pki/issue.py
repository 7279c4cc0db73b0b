"""Issue the certificates of a plane, all ECDSA P-256. It loads cryptography.

A lock file serialises groups that start together. A CA that is still valid stays, so that clients that trust it go on
when names change; one that somebody put in its place, with an ECDSA or RSA key, signs all certificates anew.
"""

import datetime
import fcntl
import ipaddress
import os
from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocols.process.authority_key import authority_key_identifier
from protocols.process.files import WholeFile, sync_directory, write_all, write_atomic
from supervisor.base.errors import PkiFailed
from supervisor.pki import certificates
from supervisor.pki.certificates import Certificate, Manifest, Wanted

CA_NAMES = {
    certificates.CLUSTER_CA: "nodeplane-ca",
    certificates.STORE_CA: "nodeplane-etcd-ca",
    certificates.FRONT_PROXY_CA: "nodeplane-front-proxy-ca",
}
Key = ec.EllipticCurvePrivateKey


class _Authority(msgspec.Struct, frozen=True):
    key: Key | rsa.RSAPrivateKey
    certificate: x509.Certificate


def issue(directory: Path, what: Wanted) -> None:
    """Issue all certificates in `directory`, unless another process did so while this one waited for the lock.

    Raises OSError, and PkiFailed for a CA whose key is kept elsewhere.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not certificates.current(directory, what):
            _issue(directory, what)
    finally:
        os.close(lock)


def _issue(directory: Path, what: Wanted) -> None:
    now = datetime.datetime.now(datetime.UTC)
    (directory / certificates.STORE_CA).parent.mkdir(mode=0o700, exist_ok=True)
    files: list[WholeFile] = []
    authorities = {
        name: load_authority(directory, now, name) or _make_authority(directory, now, name, files) for name in CA_NAMES
    }
    files += _service_account_keys(directory)
    ends = [authority.certificate.not_valid_after_utc for authority in authorities.values()]
    begins = [authority.certificate.not_valid_before_utc for authority in authorities.values()]
    begin = max(now - datetime.timedelta(days=certificates.BACKDATED_DAYS), *begins).timestamp()
    for leaf in what.certificates:
        issued = make_leaf(authorities[leaf.authority], leaf, now)
        files += _pair(directory / leaf.name, issued.key, issued.certificate)
        ends.append(issued.not_after)
    # First on the disk: a process killed between two of the files leaves whole ones that do not match.
    (directory / certificates.MANIFEST).unlink(missing_ok=True)
    sync_directory(directory)
    write_all(files)
    for name in certificates.OBSOLETE_FILES:
        (directory / name).unlink(missing_ok=True)
    manifest = Manifest(what, min(ends).timestamp(), certificates.read_authorities(directory), begin)
    write_atomic(directory / certificates.MANIFEST, msgspec.json.encode(manifest))


def load_authority(directory: Path, now: datetime.datetime, name: str = certificates.CLUSTER_CA) -> _Authority | None:
    """Return a CA from its files, or None if it is damaged or expires soon.

    Raises PkiFailed for one that is not valid yet: either the clock is wrong now, or it was when the CA was made.
    """
    try:
        certificate = x509.load_pem_x509_certificate((directory / f"{name}.crt").read_bytes())
    except (OSError, ValueError):
        return None
    key = _private_key(directory / f"{name}.key")
    enough = now + datetime.timedelta(days=certificates.RENEW_DAYS)
    if key is None or key.public_key() != certificate.public_key() or certificate.not_valid_after_utc < enough:
        return None
    if (begin := certificate.not_valid_before_utc) > now:
        own = directory / f"{name}.crt"
        raise PkiFailed(
            f"{own} is valid from {begin:%Y-%m-%d} on, and the clock says {now:%Y-%m-%d}; set the clock, or remove it "
            f"and {name}.key for another CA"
        )
    return _Authority(key, certificate)


def cluster_authority(pki: Path, now: datetime.datetime) -> _Authority:
    """Return the CA that signs for users and nodes. Raises PkiFailed."""
    if (authority := load_authority(pki, now)) is None:
        raise PkiFailed(
            f"no CA with its key that is good for a while lies in {pki}; put ca.key back, or start the plane once"
        )
    return authority


def _make_authority(directory: Path, now: datetime.datetime, file: str, files: list[WholeFile]) -> _Authority:
    """Make a CA, and add its two files; those that it replaces stay as NAME.old.

    They may be good: a clock that is ahead at one start would lose a CA that others trust for ever. Raises PkiFailed
    for a CA without its key, which somebody took away on purpose.
    """
    own, private = directory / f"{file}.crt", directory / f"{file}.key"
    if certificates.whole(own) and not private.exists():
        raise PkiFailed(f"{private} is missing; put it back for this start, or remove {own} too for another CA")
    for path in (private, own):
        if path.exists():
            files.append(WholeFile(path.with_name(f"{path.name}.old"), path.read_bytes()))
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CA_NAMES[file])])
    usage = key_usage(signs_certificates=True)
    certificate = (
        _builder(name, name, key, now, certificates.CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    files += _pair(directory / file, _pem(key), certificate.public_bytes(serialization.Encoding.PEM))
    return _Authority(key, certificate)


class _Leaf(NamedTuple):
    certificate: bytes
    key: bytes
    not_after: datetime.datetime


def _pair(path: Path, key: bytes, certificate: bytes) -> list[WholeFile]:
    """Return PATH.key and PATH.crt."""
    return [
        WholeFile(path.with_name(f"{path.name}.key"), key),
        WholeFile(path.with_name(f"{path.name}.crt"), certificate, 0o644),
    ]


def make_leaf(authority: _Authority, what: Certificate, now: datetime.datetime) -> _Leaf:
    """Issue one certificate with a new key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, what.common_name)]
    if what.organization:
        names.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, what.organization))
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if what.hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(x509.Name(names), authority.certificate.subject, key, now, certificates.LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(authority_key_identifier(authority.certificate), critical=False)
    )
    if what.hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([general_name(host) for host in what.hosts]), critical=False
        )
    certificate = builder.sign(authority.key, hashes.SHA256())
    return _Leaf(certificate.public_bytes(serialization.Encoding.PEM), _pem(key), certificate.not_valid_after_utc)


def self_signed(what: Certificate, now: datetime.datetime) -> _Leaf:
    """Issue a certificate of a server, signed with its own key, as a kubelet's."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, what.common_name)])
    certificate = (
        _builder(name, name, key, now, certificates.LEAF_DAYS)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([general_name(host) for host in what.hosts]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _Leaf(certificate.public_bytes(serialization.Encoding.PEM), _pem(key), certificate.not_valid_after_utc)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=certificates.BACKDATED_DAYS))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def key_usage(signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage of a CA, or of a server or client."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(host: str) -> x509.GeneralName:
    """Return an address or a DNS name for a certificate."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _service_account_keys(directory: Path) -> list[WholeFile]:
    """Return the key that signs service account tokens, and the file of public keys that verify them, unless they are.

    The key is never renewed, since tokens outlive certificates. Users may add public keys to the file.
    """
    private, public = directory / "sa.key", directory / "sa.pub"
    if certificates.whole(private) and certificates.whole(public):
        return []
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    key, files = _private_key(private), []
    if key is None:
        key = ec.generate_private_key(ec.SECP256R1())
        files.append(WholeFile(private, _pem(key)))
    return [*files, WholeFile(public, key.public_key().public_bytes(serialization.Encoding.PEM, form), 0o644)]


def _private_key(path: Path) -> Key | rsa.RSAPrivateKey | None:
    """Read a private key; return None if it is missing or damaged. Raises PkiFailed for one that somebody chose."""
    key = None
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError):
        return None
    except TypeError:  # it has a passphrase
        pass
    if isinstance(key, Key | rsa.RSAPrivateKey):
        return key
    raise PkiFailed(f"{path} cannot be used; put an ECDSA or RSA key without a passphrase there")


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
