"""CertificateSigningRequest: requests of users, approved by those who may, signed by the controllers.

The requester is set by admission. The spec never changes; conditions and certificate have a subresource each.
"""

import base64
import re
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden, invalid
from protocols.kinds.check.table import (
    Causes,
    Ordered,
    anything,
    at_least,
    causes_of,
    each,
    needed,
    one_of,
    together,
    unique,
)
from protocols.kinds.served.columns import AGE, NAME, cell, short_duration
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy, restore, restore_all_but
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.objects import at, items, text
from protocols.kube.times import now

if TYPE_CHECKING:
    from cryptography import x509

GROUP = "certificates.k8s.io"
SHORTEST_S = 600
TOO_SHORT = "may not specify a duration less than 600 seconds (10 minutes)"
APPROVED, DENIED, FAILED = DECISIONS = "Approved", "Denied", "Failed"
USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
LEGACY = "kubernetes.io/legacy-unknown"
MARK = re.compile(rb"-----(BEGIN|END) ([A-Z0-9 ]+)-----")
"""Begin or end of a PEM block."""

REQUEST = re.compile(
    rb"-----BEGIN CERTIFICATE REQUEST-----[ \t\r]*\n"
    rb"([A-Za-z0-9+/= \t\r\n]*)\n-----END CERTIFICATE REQUEST-----[ \t\r]*(?:\n|\Z)"
)


def _blocks(value: str) -> list[tuple[str, bytes]]:
    """Return types and texts of the PEM blocks of a field of bytes; none if it is no base64."""
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError:
        return []
    blocks, begin = list[tuple[str, bytes]](), None
    for mark in MARK.finditer(data):
        if mark[1] == b"BEGIN":
            begin = mark
        elif begin is not None and begin[2] == mark[2]:
            blocks.append((mark[2].decode(), data[begin.start() : mark.end()]))
            begin = None
    return blocks


def load_request(value: str) -> "x509.CertificateSigningRequest":
    """Return the request of spec.request: the first PEM block, which begins a line and has no headers.

    Validation, admission and signer read it here, so that all judge the same request, and the one that Go's reader
    shows to the user who approves it. Other readers of PEM skip or take malformed blocks differently. The parts of
    the result are parsed when they are read. Raises ValueError.
    """
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    pem = base64.b64decode(value, validate=True)
    begin = pem.find(b"-----BEGIN ")
    block = REQUEST.match(pem, begin) if begin == 0 or pem[begin - 1 : begin] == b"\n" else None
    if block is None:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return x509.load_der_x509_csr(base64.b64decode(b"".join(block[1].split()), validate=True))
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise ValueError(_malformed(error)) from None


SIGNATURE = "x509: signature of the certificate request is not valid"


def _malformed(error: Exception) -> str:
    return f"x509: malformed certificate request: {str(error).splitlines()[0] if str(error) else 'unreadable'}"


def request(path: str, value: str, causes: Causes) -> None:
    """Check the PEM of a certificate request and its signature."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        fault = "" if load_request(value).is_signature_valid else SIGNATURE
    except UnsupportedAlgorithm as error:
        fault = _malformed(error)
    except ValueError as error:
        fault = str(error)
    if fault:
        causes.append(invalid(path, value or None, fault))


def signer(path: str, name: str, causes: Causes) -> None:
    """Check a signer name, `DOMAIN/PATH`; the legacy one is not served in v1."""
    if name == LEGACY:
        causes.append(invalid(path, name, "the legacy signerName is not allowed via this API version"))
        return
    domain, _, rest = name.partition("/")
    if not domain or not rest or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        causes.append(invalid(path, name, text))
        return
    faults = [(part, fault) for part in (domain, rest) for fault in subdomain_faults(part)]
    causes.extend(invalid(path, part, f"validating label {part!r}: {fault}") for part, fault in faults)
    if not faults and "." not in domain:
        causes.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))


def _certificate(path: str, value: str, causes: Causes) -> None:
    from cryptography import x509

    shown, blocks = "<certificate data>", _blocks(value)
    if not blocks:
        causes.append(invalid(path, shown, "must contain at least one CERTIFICATE PEM block"))
    for index, (kind, pem) in enumerate(blocks):
        if kind != "CERTIFICATE":
            text = f'only CERTIFICATE PEM blocks are allowed, found "{kind}" at block {index}'
            causes.append(invalid(path, shown, text))
            return
        try:
            x509.load_pem_x509_certificate(pem)
        except (ValueError, x509.InvalidVersion) as error:
            causes.append(invalid(path, shown, str(error).splitlines()[0]))
            return


_decided = Ordered("type status", type=needed(anything), status=needed(one_of("True")))
_other = Ordered("type status", type=needed(anything), status=needed(one_of("False", "True", "Unknown")))


def _type(condition: Object) -> str:
    return condition.get("type") or ""


def _condition(path: str, condition: Object, causes: Causes) -> None:
    (_decided if _type(condition) in DECISIONS else _other)(path, condition, causes)


def _one_decision(path: str, conditions: list[Object], causes: Causes) -> None:
    types = [_type(condition) for condition in conditions]
    if APPROVED in types and DENIED in types:
        index = max(types.index(APPROVED), types.index(DENIED))
        text = "Approved and Denied conditions are mutually exclusive"
        causes.append(invalid(path, types[index], text))


def _change_causes(new: Object, old: Object, approval: bool) -> list[Cause]:
    """Check changed decisions and certificates; with `approval` decisions may be added."""
    path, causes = "status.conditions", list[Cause]()
    for kind in DECISIONS:
        after, before = (
            [condition for condition in items(obj, "status", "conditions") if _type(condition) == kind]
            for obj in (new, old)
        )
        if len(after) < len(before):
            causes.append(forbidden(path, f'updates may not remove a condition of type "{kind}"'))
        elif not approval and kind != FAILED and after != before:
            verb = "add" if len(after) > len(before) else "modify"
            causes.append(forbidden(path, f'updates may not {verb} a condition of type "{kind}"'))
    certificate, stored = at(new, "status", "certificate"), at(old, "status", "certificate")
    if stored and certificate != stored:
        causes.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
    return causes if certificate == stored else causes + causes_of(CERTIFICATE, "", new)


CERTIFICATE = Ordered(status=Ordered(certificate=_certificate))


class RequestStrategy(Strategy):
    """CertificateSigningRequests: only `approval` writes conditions, only `status` the certificate."""

    has_status = True
    untracked = ("spec",)
    untracked_status = ("conditions",)
    parts = ("approval",)
    rules = Ordered(
        spec=Ordered(
            "request usages signerName",
            request=request,
            usages=needed(together(each(one_of(*USAGES, empty=True)), unique), "usages must be provided"),
            signerName=needed(signer),
            expirationSeconds=at_least(SHORTEST_S, TOO_SHORT),
        )
    )
    status_rules = Ordered(status=Ordered(conditions=together(each(_condition, key=_type, at=".type"), _one_decision)))

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def prepare_update(self, new: Object, old: Object) -> None:
        restore(new, old, "spec", "status")

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        _stamp(new, old)

    def part(self, subresource: str, new: Object, old: Object) -> list[Cause]:
        """Change the conditions only."""
        restore_all_but(new, old, "status", "metadata")
        restore(new.setdefault("status", {}), old.get("status") or {}, "certificate")
        _stamp(new, old)
        return super().validate_status(new, old) + _change_causes(new, old, approval=True)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return super().validate_status(new, old) + _change_causes(new, old, approval=False)


def _stamp(new: Object, old: Object) -> None:
    """Set the times of conditions that have none: of the update, and of the last change of the status."""
    stamp, stored = now(), {_type(condition): condition for condition in items(old, "status", "conditions")}
    for condition in items(new, "status", "conditions"):
        before = stored.get(_type(condition)) or {}
        is_same = before.get("status") == condition.get("status")
        since = (before.get("lastTransitionTime") if is_same else "") or stamp
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or stamp
        condition["lastTransitionTime"] = condition.get("lastTransitionTime") or since


def _duration(obj: Object) -> str:
    seconds = at(obj, "spec", "expirationSeconds")
    return "<none>" if seconds is None else short_duration(seconds)


def condition_cell(obj: Object) -> str:
    """Return kubectl's column CONDITION, e.g. `Approved,Issued`."""
    kinds = {condition.get("type") for condition in items(obj, "status", "conditions")}
    shown = DENIED if DENIED in kinds else APPROVED if APPROVED in kinds else "Pending"
    issued = ",Issued" if text(obj, "status", "certificate") else ""
    return shown + (",Failed" if FAILED in kinds else "") + issued


REQUESTS = Served(
    **asdict(kinds.CERTIFICATESIGNINGREQUESTS),
    strategy=RequestStrategy(),
    free_names=True,
    columns=(
        NAME,
        AGE,
        Column("SignerName", cell("spec", "signerName", missing="<none>")),
        Column("Requestor", cell("spec", "username")),
        Column("RequestedDuration", _duration),
        Column("Condition", condition_cell),
    ),
    fields={"spec.signerName": cell("spec", "signerName")},
    subresources=(
        Subresource("status", STATUS_VERBS, "CertificateSigningRequest", GROUP, "v1"),
        Subresource("approval", STATUS_VERBS, "CertificateSigningRequest", GROUP, "v1"),
    ),
)

ROWS = (REQUESTS,)
