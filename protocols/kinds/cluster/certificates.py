"""CertificateSigningRequest: requests of users, approved by those who may, signed by the controllers.

The requester is set by admission. The spec never changes; conditions and certificate have a subresource each.
"""

import base64
import binascii
import re
from typing import Any

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, forbidden, invalid, required, unsupported
from protocols.kinds.check.table import Ordered, at_least, causes_of, each, needed, once, one_of, together, unique
from protocols.kinds.served.columns import AGE, NAME, cell, short_duration
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy, restore, restore_all_but
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.objects import at, items, text
from protocols.kube.times import now

GROUP = "certificates.k8s.io"
SHORTEST_S = 600
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_DURATION = Ordered(
    expirationSeconds=at_least(SHORTEST_S, "may not specify a duration less than 600 seconds (10 minutes)")
)
LEGACY = "kubernetes.io/legacy-unknown"
BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
NOT_REQUEST = "PEM block type must be CERTIFICATE REQUEST"


class RequestStrategy(Strategy):
    """CertificateSigningRequests: only `approval` writes conditions, only `status` the certificate."""

    has_status = True
    untracked = ("spec",)
    untracked_status = ("conditions",)
    parts = ("approval",)

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
        restore(new["metadata"], old["metadata"], "ownerReferences")
        status, before = new.setdefault("status", {}), old.get("status") or {}
        restore(status, before, "certificate")
        _stamp(new, old)
        return status_causes(new, old, approval=True)

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        return [
            *request_causes("spec.request", spec.get("request")),
            *_usage_causes("spec.usages", spec.get("usages") or []),
            *signer_causes("spec.signerName", str(spec.get("signerName") or "")),
            *causes_of(_DURATION, "spec", spec),
        ]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return status_causes(new, old, approval=False)


def request_causes(path: str, value: Any) -> list[Cause]:
    """Validate the PEM of a certificate request and its signature."""
    try:
        pem = base64.b64decode(value or "", validate=True)
    except (ValueError, TypeError, binascii.Error):
        return [invalid(path, value, NOT_REQUEST)]
    block = BLOCK.search(pem)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        return [invalid(path, value, NOT_REQUEST)]
    fault = _signature_fault(block[0])
    return [invalid(path, value, fault)] if fault else []


def _signature_fault(pem: bytes) -> str:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        valid = x509.load_pem_x509_csr(pem).is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return f"x509: malformed certificate request: {str(error).splitlines()[0] if str(error) else 'unreadable'}"
    return "" if valid else "x509: signature of the certificate request is not valid"


_usages = needed(together(each(one_of(*USAGES, empty=True)), unique), "usages must be provided")


def _usage_causes(path: str, usages: list[str]) -> list[Cause]:
    return causes_of(_usages, path, usages)


def signer_causes(path: str, name: str) -> list[Cause]:
    """Check a signer name, `DOMAIN/PATH`; the legacy one is not served in v1."""
    if name == LEGACY:
        return [invalid(path, name, "the legacy signerName is not allowed via this API version")]
    if not name:
        return [required(path)]
    domain, slash, rest = name.partition("/")
    if not slash or not domain or not rest or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    causes = [invalid(path, domain, f"validating label {domain!r}: {fault}") for fault in subdomain_faults(domain)]
    if not causes and "." not in domain:
        causes.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    return causes + [invalid(path, rest, f"validating label {rest!r}: {fault}") for fault in subdomain_faults(rest)]


def status_causes(new: Object, old: Object, approval: bool) -> list[Cause]:
    """Validate conditions and certificate; with `approval` conditions may change, else the certificate may be set."""
    path, after, before = "status.conditions", items(new, "status", "conditions"), items(old, "status", "conditions")
    causes = _condition_causes(path, after)
    for kind in (APPROVED, DENIED, FAILED):
        now_held, held = _of(after, kind), _of(before, kind)
        if len(now_held) < len(held):
            causes.append(forbidden(path, f'updates may not remove a condition of type "{kind}"'))
        elif not approval and kind != FAILED and now_held != held:
            verb = "add" if len(now_held) > len(held) else "modify"
            causes.append(forbidden(path, f'updates may not {verb} a condition of type "{kind}"'))
    value, was = at(new, "status", "certificate"), at(old, "status", "certificate")
    if was and value != was:
        causes.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
    return causes + (_certificate_causes("status.certificate", value) if value and value != was else [])


def _of(conditions: list[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition.get("type") == kind]


def _condition_causes(path: str, conditions: list[Object]) -> list[Cause]:
    causes, seen, is_new = list[Cause](), [condition.get("type") or "" for condition in conditions], once()
    for index, condition in enumerate(conditions):
        kind, status = seen[index], condition.get("status") or ""
        if not kind:
            causes.append(required(f"{path}[{index}].type"))
        allowed = ("True",) if kind in (APPROVED, DENIED, FAILED) else ("False", "True", "Unknown")
        if not status:
            causes.append(required(f"{path}[{index}].status"))
        elif status not in allowed:
            causes.append(unsupported(f"{path}[{index}].status", status, allowed))
        is_new(f"{path}[{index}].type", kind, causes)
    if APPROVED in seen and DENIED in seen:
        index = max(seen.index(APPROVED), seen.index(DENIED))
        text = "Approved and Denied conditions are mutually exclusive"
        causes.append(invalid(f"{path}[{index}].type", seen[index], text))
    return causes


def _certificate_causes(path: str, value: Any) -> list[Cause]:
    from cryptography import x509

    try:
        pem = base64.b64decode(value, validate=True)
    except (ValueError, TypeError, binascii.Error):
        return [invalid(path, "<certificate data>", "must contain at least one valid CERTIFICATE PEM block")]
    blocks = list(BLOCK.finditer(pem))
    for index, block in enumerate(blocks):
        if block[1] != b"CERTIFICATE":
            kind = block[1].decode()
            text = f'only CERTIFICATE PEM blocks are allowed, found "{kind}" at block {index}'
            return [invalid(path, "<certificate data>", text)]
        try:
            x509.load_pem_x509_certificate(block[0])
        except ValueError as error:
            return [invalid(path, "<certificate data>", str(error).splitlines()[0])]
    if blocks:
        return []
    return [invalid(path, "<certificate data>", "must contain at least one CERTIFICATE PEM block")]


def _stamp(new: Object, old: Object) -> None:
    """Set the times of conditions that have none: of the update, and of the last change of the status."""
    stamp, before = now(), {each.get("type"): each for each in items(old, "status", "conditions")}
    for condition in items(new, "status", "conditions"):
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = stamp
        if condition.get("lastTransitionTime"):
            continue
        held = before.get(condition.get("type")) or {}
        same = held.get("status") == condition.get("status") and held.get("lastTransitionTime")
        condition["lastTransitionTime"] = held["lastTransitionTime"] if same else stamp


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
