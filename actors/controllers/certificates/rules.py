"""Signers' rules for certificate requests, and when requests are removed. Pure; texts and times are upstream's."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from protocols.errors import NodeplaneError
from protocols.kinds.cluster.certificates import load_request
from protocols.kube.errors import TimeInvalid
from protocols.kube.meta import Object, meta
from protocols.kube.times import parse_time

if TYPE_CHECKING:
    from cryptography import x509

CLIENT, KUBELET_CLIENT, KUBELET_SERVING = (
    f"kubernetes.io/{name}" for name in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving")
)
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING)
NODES, NODE_PREFIX = "system:nodes", "system:node:"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
PENDING_S, DECIDED_S = 24 * 3600.0, 3600.0
"""Time a request stays without a decision, and after one."""
SHORTEST_S, LONGEST_S = 600, 365 * 86400
"""Bounds of a certificate's validity; the longest is also the default."""


class RequestInvalid(NodeplaneError):
    """Raised when a request breaks its signer's rules; the text becomes the message of its condition Failed."""


class SubjectNames(NamedTuple):
    """Subject alternative names of a request by kind."""

    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


class Certificate(msgspec.Struct, frozen=True):
    """The parts of a request that a signer checks."""

    common_name: str
    organizations: tuple[str, ...]
    names: SubjectNames


def parse_request(csr: Object) -> "x509.CertificateSigningRequest":
    """Return the request of a CertificateSigningRequest. Raises RequestInvalid."""
    try:
        return load_request(str(_spec(csr).get("request") or ""))
    except ValueError as error:
        raise RequestInvalid(f"unable to parse the request: {error}") from None


def read_certificate(request: "x509.CertificateSigningRequest") -> Certificate:
    """Return subject and names that a request asks for; the last common name counts. Raises RequestInvalid."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.x509.oid import NameOID

    try:
        request.public_key()
        names = [str(attribute.value) for attribute in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        alternative = _names(request)
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise RequestInvalid(f"unable to parse the request: {error}") from None
    return Certificate(
        common_name=names[-1] if names else "",
        organizations=tuple(str(organization.value) for organization in organizations),
        names=alternative,
    )


def _names(request: "x509.CertificateSigningRequest") -> SubjectNames:
    from cryptography import x509

    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return SubjectNames()
    return SubjectNames(
        dns=tuple(names.get_values_for_type(x509.DNSName)),
        ips=tuple(str(ip) for ip in names.get_values_for_type(x509.IPAddress)),
        emails=tuple(names.get_values_for_type(x509.RFC822Name)),
        uris=tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def check_signer(signer: str, wanted: Certificate, usages: frozenset[str]) -> None:
    """Raise RequestInvalid for a request that its signer does not sign."""
    if signer == CLIENT:
        _check_client(usages)
    elif signer == KUBELET_CLIENT:
        check_kubelet_client(wanted, usages)
    else:
        _check_kubelet_serving(wanted, usages)


def _check_client(usages: frozenset[str]) -> None:
    for usage in sorted(usages):
        if usage not in ("digital signature", "key encipherment", "client auth"):
            raise RequestInvalid(f"invalid usage for client certificate: {usage}")
    if "client auth" not in usages:
        raise RequestInvalid("missing required usage for client certificate: client auth")


def check_kubelet_client(wanted: Certificate, usages: frozenset[str]) -> None:
    """Raise RequestInvalid unless this is a kubelet's client certificate."""
    _check_organization(wanted)
    for name, values in zip(("DNS", "IP", "Email", "URI"), wanted.names, strict=True):
        if values:
            raise RequestInvalid(f"{name} subjectAltNames are not allowed")
    _check_name(wanted)
    _check_usages(usages, "client auth")


def _check_kubelet_serving(wanted: Certificate, usages: frozenset[str]) -> None:
    _check_organization(wanted)
    if not wanted.names.dns and not wanted.names.ips:
        raise RequestInvalid("DNS or IP subjectAltName is required")
    if wanted.names.emails:
        raise RequestInvalid("Email subjectAltNames are not allowed")
    if wanted.names.uris:
        raise RequestInvalid("URI subjectAltNames are not allowed")
    _check_usages(usages, "server auth")
    _check_name(wanted)


def _check_organization(wanted: Certificate) -> None:
    if wanted.organizations != (NODES,):
        raise RequestInvalid("subject organization is not system:nodes")


def _check_name(wanted: Certificate) -> None:
    if not wanted.common_name.startswith(NODE_PREFIX):
        raise RequestInvalid("subject common name does not begin with system:node:")


def _check_usages(usages: frozenset[str], purpose: str) -> None:
    """Kubelets with an RSA key ask for key encipherment, others do not."""
    least = {"digital signature", purpose}
    if usages not in (least, least | {"key encipherment"}):
        listed = " ".join(sorted(least | {"key encipherment"}))
        raise RequestInvalid(f"usages did not match [{listed}]")


def approvals(csr: Object, wanted: Certificate) -> list[tuple[str, str]]:
    """Return the subresources whose `create` right approves a request by itself, with the condition's message."""
    spec = _spec(csr)
    if spec.get("signerName") != KUBELET_CLIENT:
        return []
    try:
        check_kubelet_client(wanted, usages_of(csr))
    except RequestInvalid:
        return []
    subresources = [("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")]
    if spec.get("username") == wanted.common_name:
        text = "Auto approving self kubelet client certificate after SubjectAccessReview."
        subresources.insert(0, ("selfnodeclient", text))
    return subresources


def usages_of(csr: Object) -> frozenset[str]:
    """Return spec.usages as a set: signers do not care about their order."""
    return frozenset(map(str, _spec(csr).get("usages") or ()))


def seconds_of(csr: Object) -> int:
    """Return how long the certificate shall be valid."""
    asked = _spec(csr).get("expirationSeconds")
    return LONGEST_S if not isinstance(asked, int) else max(SHORTEST_S, min(asked, LONGEST_S))


def has_condition(csr: Object, kind: str) -> bool:
    """Return True if status.conditions has `kind` with status "True"."""
    return any(condition.get("type") == kind and condition.get("status") == "True" for condition in conditions_of(csr))


def conditions_of(csr: Object) -> list[Object]:
    """Return status.conditions; entries that are no objects are left out."""
    return [condition for condition in (csr.get("status") or {}).get("conditions") or () if isinstance(condition, dict)]


def certificate_of(csr: Object) -> str:
    """Return the signed certificate in base64; empty until it is."""
    return str((csr.get("status") or {}).get("certificate") or "")


def removal_time(csr: Object, ends: float | None = None) -> float | None:
    """Return the Unix time at which a request is removed; `ends`: when its certificate expires.

    None for one that is approved and waits for its signer.
    """
    times, conditions = [ends] if ends is not None else [], conditions_of(csr)
    final = (APPROVED, DENIED, FAILED) if certificate_of(csr) else (DENIED, FAILED)
    for condition in conditions:
        if condition.get("type") in final and (updated := _time(condition.get("lastUpdateTime"))) is not None:
            times.append(updated + DECIDED_S)
    if not conditions and (created := _time(meta(csr).get("creationTimestamp"))) is not None:
        times.append(created + PENDING_S)
    return min(times) if times else None


def _time(stamp: object) -> float | None:
    try:
        return parse_time(str(stamp)) if stamp else None
    except TimeInvalid:
        return None


def _spec(csr: Object) -> Object:
    spec = csr.get("spec")
    return spec if isinstance(spec, dict) else {}
