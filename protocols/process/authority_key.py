"""The identifier by which a certificate names the key of the CA that signed it. It loads cryptography when called."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509


def authority_key_identifier(authority: "x509.Certificate") -> "x509.AuthorityKeyIdentifier":
    """Return it as the CA's certificate has it: programs derive it from the key in several ways, and verifiers compare.

    `authority` has an ECDSA or RSA key.
    """
    from cryptography import x509

    try:
        own = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())  # type: ignore[arg-type]  # see above
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
