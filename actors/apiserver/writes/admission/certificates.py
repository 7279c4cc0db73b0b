"""Admission of certificate signing requests: who asks, who may approve, who may sign.

These are upstream's plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction, and what its
strategy takes from the request's user. Clients match on the texts.
"""

from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import MASTERS
from actors.apiserver.authorization.node_rules import is_node
from actors.apiserver.writes.admission.rule import Rule, Step
from actors.apiserver.writes.change import CREATE, UPDATE, Change
from protocols.kinds.cluster.certificates import load_request
from protocols.kube.meta import Object
from protocols.kube.objects import at, text

GROUP = "certificates.k8s.io"
CLIENT = "kubernetes.io/kube-apiserver-client"
NODE_SIGNERS = ("kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving")


class CertificateRequester(Rule):
    """Set the requester of a new request to its author."""

    step, covers = Step.COMPLETE, {f"*.{GROUP}": (CREATE,)}

    def apply(self, change: Change) -> None:
        set_requester(change.author, change.sent)


class CertificateRights(Rule):
    """Check who may request a subject, approve for a signer, sign for a signer."""

    step, covers = Step.CHECK_AUTHOR, {f"*.{GROUP}": (CREATE, UPDATE)}

    def apply(self, change: Change) -> None:
        part, new, old = change.target.subresource, change.sent, change.old
        signer = text(new, "spec", "signerName")
        if not old:
            change.reject(_subject_fault(change.author, signer, new))
        elif part == "approval" and not self._may(change.author, "approve", signer):
            change.reject(f'user not permitted to approve requests with signerName "{signer}"')
        elif part == "status" and _signs(new, old) and not self._may(change.author, "sign", signer):
            change.reject(f'user not permitted to sign requests with signerName "{signer}"')

    def _may(self, user: User, verb: str, signer: str) -> bool:
        """Return True if the user has a verb on a signer, by its name or by all of its domain."""
        names = (signer, f"{signer.partition('/')[0]}/*")
        wanted = (Attributes(verb, "", GROUP, "signers", name=name) for name in names)
        return any(self.given.authorizer.allows(user, attributes) for attributes in wanted)


def set_requester(user: User, obj: Object) -> None:
    """Write the request's user into a new CertificateSigningRequest, in place of what it says."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}


def _signs(new: Object, old: Object) -> bool:
    return any(at(new, "status", field) != at(old, "status", field) for field in ("certificate", "conditions"))


def _subject_fault(user: User, signer: str, new: Object) -> str:
    if signer != CLIENT and not (is_node(user) and signer in NODE_SIGNERS):
        return ""
    subject = _subject(text(new, "spec", "request"))
    if subject is None:  # validation reports it
        return ""
    name, organizations = subject
    if signer == CLIENT:
        return f"use of {CLIENT} signer with {MASTERS} group is not allowed" if MASTERS in organizations else ""
    return "" if name == user.name else f"can only create a node CSR with CN={user.name}"


def _subject(request: str) -> tuple[str, list[str]] | None:
    """Return common name and organizations of a request; None if it cannot be read."""
    from cryptography.x509.oid import NameOID

    try:
        subject = load_request(request).subject
        names = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        organizations = [str(entry.value) for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    except ValueError:
        return None
    return names[-1] if names else "", organizations
