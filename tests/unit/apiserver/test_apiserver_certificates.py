"""Certificate signing requests: validation, conditions, who may approve and sign, columns (facts of upstream 1.36)."""

import base64
import time
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from actors.apiserver.api.errors import Forbidden
from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Attributes, Target
from actors.apiserver.api.request.user import User
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission.certificates import CertificateRights, set_requester
from actors.apiserver.writes.admission.rule import Dependencies
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.owners import apply
from protocols.kinds.check.table import causes_of
from protocols.kinds.cluster.certificates import RequestStrategy, condition_cell, load_request, signer
from protocols.kube.meta import Object

ROW = TABLE.of("certificatesigningrequests")
CLIENT, KUBELET = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"
SIGNER = "example.com/mine"


def pem(name: str = "alice", organization: str = "") -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def request(**spec: Any) -> Object:
    whole = {"request": pem(), "signerName": SIGNER, "usages": ["client auth"], **spec}
    return {"metadata": {"name": "a"}, "spec": whole, "status": {}}


def faults(**spec: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in RequestStrategy().validate_create(request(**spec))]


BEGIN, END = b"-----BEGIN CERTIFICATE REQUEST-----\n", b"-----END CERTIFICATE REQUEST-----\n"


def encoded(*parts: bytes) -> str:
    return base64.b64encode(b"".join(parts)).decode()


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (BEGIN, BEGIN.strip()),
        (BEGIN, b"x" + BEGIN),
        (BEGIN, BEGIN.strip() + b"\t"),
        (BEGIN, BEGIN + b"Name: value\n\n"),
        (BEGIN, BEGIN + b"\v"),
        (END, END.strip() + b"x\n"),
        (BEGIN, BEGIN.replace(b"CERT", b"NEW CERT")),
    ],
)
def test_request_is_the_block_that_gos_reader_takes_or_invalid(was: bytes, becomes: bytes) -> None:
    """`kubectl describe` shows `shown` to who approves: the signer must never sign the one before it."""
    hidden, shown = base64.b64decode(pem("system:kube-controller-manager")), base64.b64decode(pem("harmless"))
    sent = encoded(hidden.replace(was, becomes), shown)
    assert [fault.partition(":")[0] for fault in faults(request=sent)] == ["spec.request"]
    with pytest.raises(ValueError, match="PEM block type"):
        load_request(sent)


def test_request_may_have_text_before_and_blocks_behind_it() -> None:
    sent = encoded(
        b"Certificate Request:\r\n    Data:\n",
        base64.b64decode(pem("first")).replace(b"\n", b"\r\n"),
        base64.b64decode(pem("second")),
    )
    assert faults(request=sent) == []
    assert load_request(sent).subject.rfc4514_string() == "CN=first"


def test_request_of_an_unknown_version_is_invalid() -> None:
    der = x509.load_pem_x509_csr(base64.b64decode(pem())).public_bytes(serialization.Encoding.DER)
    body = base64.b64encode(der.replace(b"\x02\x01\x00", b"\x02\x01\x02", 1))
    assert "not a valid CSR version" in faults(request=encoded(BEGIN, body, b"\n", END))[0]


def test_request_with_known_parts_is_valid() -> None:
    assert faults(expirationSeconds=600) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"request": "bm90IGEgcGVt"}, "spec.request"),
        ({"usages": []}, "spec.usages"),
        ({"usages": ["flying"]}, "spec.usages[0]"),
        ({"usages": ["client auth", "client auth"]}, "spec.usages[1]"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
        ({"signerName": "nodomain"}, "spec.signerName"),
        ({"signerName": "short/x"}, "spec.signerName"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName"),
    ],
)
def test_request_with_one_fault_is_rejected_at_its_field(spec: Object, field: str) -> None:
    found = faults(**spec)
    assert [each.split(": ")[0] for each in found] == [field]


def test_request_with_a_broken_signature_is_rejected() -> None:
    text = base64.b64decode(pem()).decode().splitlines()
    der = bytearray(base64.b64decode("".join(text[1:-1])))
    der[-1] ^= 1
    broken = "\n".join((text[0], base64.b64encode(bytes(der)).decode(), text[-1]))
    [found] = faults(request=base64.b64encode(broken.encode()).decode())
    assert found.startswith("spec.request: Invalid value")


def test_signer_name_without_path_has_upstreams_text() -> None:
    [cause] = causes_of(signer, "spec.signerName", "example.com")
    assert cause.message.endswith("must be a fully qualified domain and path of the form 'example.com/signer-name'")


def with_conditions(*kinds: str, certificate: str = "") -> Object:
    conditions = [{"type": kind, "status": "True"} for kind in kinds]
    return {**request(), "status": {"conditions": conditions, **({"certificate": certificate} if certificate else {})}}


def test_approval_changes_conditions_and_nothing_else() -> None:
    old = request()
    new = with_conditions("Approved", certificate="YQ==")
    new["spec"] = {"signerName": "example.com/other"}
    assert RequestStrategy().part("approval", new, old) == []
    assert new["spec"] == old["spec"]
    assert "certificate" not in new["status"]
    [condition] = new["status"]["conditions"]
    assert condition["lastUpdateTime"]
    assert condition["lastTransitionTime"]


@pytest.mark.parametrize(
    ("after", "before", "approval", "text"),
    [
        ((), ("Approved",), True, 'updates may not remove a condition of type "Approved"'),
        (("Approved",), (), False, 'updates may not add a condition of type "Approved"'),
        (("Approved", "Denied"), ("Approved",), True, "Approved and Denied conditions are mutually exclusive"),
    ],
)
def test_status_with_a_forbidden_change_is_rejected(after: Any, before: Any, approval: bool, text: str) -> None:
    strategy, new, old = RequestStrategy(), with_conditions(*after), with_conditions(*before)
    causes = strategy.part("approval", new, old) if approval else strategy.validate_status(new, old)
    assert any(text in cause.message for cause in causes)


def test_applied_conditions_are_stored_and_owned_by_nobody() -> None:
    target = Target(ROW, "patch", "", "r", "status")
    live = {**request(), "metadata": {"name": "r", "resourceVersion": "1"}}
    result = apply(target, with_conditions("Failed", certificate="YQ=="), WriteOptions(manager="m"), live)
    entry = next(entry for entry in result.entries if entry["manager"] == "m")
    assert [condition["type"] for condition in result.obj["status"]["conditions"]] == ["Failed"]
    assert entry["fieldsV1"] == {"f:status": {"f:certificate": {}}}


@pytest.mark.parametrize(
    "part", [b"-----BEGIN A-----\n", b"-----END A-----\n", b"-----BEGIN ", b"-----BEGIN A-----\nx\n-----END B"]
)
def test_certificate_of_many_marks_is_judged_at_once(part: bytes) -> None:
    value, began = base64.b64encode(part * (2**20 // len(part))).decode(), time.process_time()
    [cause] = RequestStrategy().validate_status(with_conditions(certificate=value), with_conditions())
    assert cause.message.endswith("must contain at least one CERTIFICATE PEM block")
    assert time.process_time() - began < 1


def test_issued_certificate_never_changes() -> None:
    new, old = with_conditions(certificate="YQ=="), with_conditions(certificate="Yg==")
    assert any("existing certificate" in cause.message for cause in RequestStrategy().validate_status(new, old))


class Rights:
    """An authorizer that knows pairs of verb and signer."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._pairs = pairs

    def allows(self, user: User, wanted: Attributes) -> bool:
        return (wanted.verb, wanted.name) in self._pairs


def fault(subresource: str, new: Object, old: Object, *pairs: tuple[str, str], user: User | None = None) -> str:
    target = Target(ROW, "update" if old else "create", name="a", subresource=subresource)
    rule = CertificateRights(Dependencies(Rights(*pairs), lambda name: None))  # type: ignore[arg-type]  # a fake
    try:
        rule.apply(Change(target, user or User("bob"), old=old or None, new=new))
    except Forbidden as rejection:
        return str(rejection).partition("forbidden: ")[2]
    return ""


def test_approval_needs_the_verb_on_the_signer_or_its_domain() -> None:
    new, old = with_conditions("Approved"), request()
    text = f'user not permitted to approve requests with signerName "{SIGNER}"'
    assert fault("approval", new, old) == text
    assert fault("approval", new, old, ("approve", SIGNER)) == ""
    assert fault("approval", new, old, ("approve", "example.com/*")) == ""
    assert fault("approval", new, old, ("sign", SIGNER)) == text


def test_signing_needs_the_verb_only_if_something_is_signed() -> None:
    new, old = with_conditions("Failed"), request()
    assert fault("status", new, old) == f'user not permitted to sign requests with signerName "{SIGNER}"'
    assert fault("status", new, old, ("sign", SIGNER)) == ""
    assert fault("status", old, old) == ""


def test_client_certificate_for_masters_is_forbidden() -> None:
    new = request(request=pem("eve", "system:masters"), signerName=CLIENT)
    assert "system:masters group is not allowed" in fault("", new, {})


def test_node_asks_for_certificates_of_its_own_name_only() -> None:
    node = User("system:node:n1", ("system:nodes",))
    other = request(request=pem("system:node:n2", "system:nodes"), signerName=KUBELET)
    own = request(request=pem("system:node:n1", "system:nodes"), signerName=KUBELET)
    assert fault("", other, {}, user=node) == "can only create a node CSR with CN=system:node:n1"
    assert fault("", own, {}, user=node) == ""


def test_requester_is_the_user_of_the_request() -> None:
    made = request(username="root", groups=["system:masters"], extra={"a": ["b"]})
    set_requester(User("bob", ("g",), "u1", (("k", ("v",)),)), made)
    found = {field: made["spec"].get(field) for field in ("username", "uid", "groups", "extra")}
    assert found == {"username": "bob", "uid": "u1", "groups": ["g"], "extra": {"k": ["v"]}}


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (with_conditions(), "Pending"),
        (with_conditions("Approved", certificate="YQ=="), "Approved,Issued"),
        (with_conditions("Denied"), "Denied"),
        (with_conditions("Approved", "Failed"), "Approved,Failed"),
    ],
)
def test_condition_cell_shows_the_progress(obj: Object, shown: str) -> None:
    assert condition_cell(obj) == shown


def test_columns_are_upstreams() -> None:
    names = ["Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"]
    assert [column.name for column in ROW.columns] == names
    duration = next(column for column in ROW.columns if column.name == "RequestedDuration")
    assert (duration.cell(request(expirationSeconds=86400)), duration.cell(request())) == ("24h", "<none>")
