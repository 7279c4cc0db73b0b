"""Certificates: signers' rules, approval after a review, signing, removal of old requests (facts of upstream 1.36)."""

import asyncio
import base64
import datetime
import ipaddress
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.controllers.certificates.controller import CertificateController
from actors.controllers.certificates.rules import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    Certificate,
    RequestInvalid,
    SubjectNames,
    check_signer,
    read_certificate,
    removal_time,
    seconds_of,
)
from actors.controllers.certificates.signing import expiry, sign
from protocols.kinds.cluster.certificates import RequestStrategy
from protocols.kube.meta import Object
from protocols.kube.times import format_time
from tests.support.authority import Authority

NODE, NODES = "system:node:n1", ("system:nodes",)
CLIENT_USAGES = ["digital signature", "client auth"]
SERVER_USAGES = ["digital signature", "server auth"]


def request(name: str = NODE, organization: str = "system:nodes", dns: tuple[str, ...] = ()) -> str:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if dns:
        hosts: list[x509.GeneralName] = [*map(x509.DNSName, dns), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def csr(signer: str = KUBELET_CLIENT, *conditions: str, pem: str = "", **spec: Any) -> Object:
    usages = SERVER_USAGES if signer == KUBELET_SERVING else CLIENT_USAGES
    stamp = format_time(datetime.datetime.now(datetime.UTC).timestamp())
    return {
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "creationTimestamp": stamp},
        "spec": {"request": pem or request(), "signerName": signer, "usages": usages, "username": "bob", **spec},
        "status": {
            "conditions": [{"type": condition, "status": "True", "lastUpdateTime": stamp} for condition in conditions]
        },
    }


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b"\x06\x03\x55\x1d\x13", b"\x06\x03\x55\x1d\x11"),  # basicConstraints becomes a second subjectAltName
        (b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07", b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x70"),  # curve
        (b"\x82\x01a", b"\xa3\x01a"),  # x400Address
        (b"\x0c\x01n", b"\x0c\x01\xff"),  # no UTF-8
    ],
)
def test_request_with_unreadable_parts_is_invalid(was: bytes, becomes: bytes) -> None:
    """Each has a class of errors of its own, which would be retried for ever."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "n")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("a")]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=False)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    der = made.public_bytes(serialization.Encoding.DER)
    assert was in der
    with pytest.raises(RequestInvalid, match="unable to parse the request"):
        read_certificate(x509.load_der_x509_csr(der.replace(was, becomes)))


def certificate(**changes: Any) -> Certificate:
    return Certificate(**{"common_name": NODE, "organizations": NODES, "names": SubjectNames(), **changes})


@pytest.mark.parametrize(
    ("signer", "wanted", "usages", "text"),
    [
        (KUBELET_CLIENT, certificate(), CLIENT_USAGES, ""),
        (KUBELET_CLIENT, certificate(), [*CLIENT_USAGES, "key encipherment"], ""),
        (KUBELET_CLIENT, certificate(organizations=("x",)), CLIENT_USAGES, "subject organization is not system:nodes"),
        (
            KUBELET_CLIENT,
            certificate(names=SubjectNames(dns=("a",))),
            CLIENT_USAGES,
            "DNS subjectAltNames are not allowed",
        ),
        (KUBELET_CLIENT, certificate(common_name="n1"), CLIENT_USAGES,
         "subject common name does not begin with system:node:"),
        (KUBELET_CLIENT, certificate(), SERVER_USAGES,
         "usages did not match [client auth digital signature key encipherment]"),
        (KUBELET_SERVING, certificate(names=SubjectNames(ips=("10.0.0.1",))), SERVER_USAGES, ""),
        (KUBELET_SERVING, certificate(), SERVER_USAGES, "DNS or IP subjectAltName is required"),
        (KUBELET_SERVING, certificate(names=SubjectNames(dns=("a",), emails=("b",))), SERVER_USAGES,
         "Email subjectAltNames are not allowed"),
        (CLIENT, certificate(common_name="alice", organizations=()), ["client auth"], ""),
        (CLIENT, certificate(), ["digital signature"], "missing required usage for client certificate: client auth"),
        (CLIENT, certificate(), ["client auth", "server auth"], "invalid usage for client certificate: server auth"),
    ],
)  # fmt: skip
def test_signer_accepts_what_upstreams_does(signer: str, wanted: Certificate, usages: list[str], text: str) -> None:
    try:
        check_signer(signer, wanted, frozenset(usages))
        found = ""
    except RequestInvalid as error:
        found = str(error)
    assert found == text


@pytest.mark.parametrize(("asked", "seconds"), [(None, 31536000), (60, 600), (3600, 3600), (2**40, 31536000)])
def test_validity_is_bounded(asked: int | None, seconds: int) -> None:
    assert seconds_of(csr(expirationSeconds=asked)) == seconds


def test_requests_are_removed_after_upstreams_times() -> None:
    created, decided = {"creationTimestamp": "2026-01-01T00:00:00Z"}, "2026-01-01T02:00:00Z"
    pending = {"metadata": created, "status": {}}
    begin = removal_time(pending)
    assert begin is not None
    for kind, certificate in (("Approved", "c2lnbmVk"), ("Denied", ""), ("Failed", "")):
        conditions = [{"type": kind, "status": "True", "lastUpdateTime": decided}]
        status = {"conditions": conditions, "certificate": certificate}
        assert removal_time({**pending, "status": status}) == begin - 21 * 3600
    waits = {"conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": decided}]}
    assert removal_time({**pending, "status": waits}) is None, "its signer may take long"
    assert removal_time(pending, begin - 5) == begin - 5


class Api:
    """Answers reviews and applies patches."""

    def __init__(self, *rights: str) -> None:
        self.rights = rights
        self.asked: list[str] = []
        self.patched: list[tuple[str, Object]] = []
        self.deleted: list[str] = []

    async def create(self, resource: Any, obj: Object) -> Object:
        right = obj["spec"]["resourceAttributes"]["subresource"]
        self.asked.append(right)
        return {"status": {"allowed": right in self.rights}}

    async def patch(self, resource: Any, name: str, namespace: str = "", *, body: Object, subresource: str) -> Object:
        self.patched.append((subresource, body["status"]))
        return body

    async def delete(self, resource: Any, name: str, uid: str = "") -> Object:
        self.deleted.append(name)
        return {}


def authority(directory: Path) -> tuple[Path, Path]:
    made = Authority(directory)
    (directory / "ca.key").write_bytes(made.key_pem)
    return directory / "ca.crt", directory / "ca.key"


async def run(api: Api, obj: Object, ca: Path = Path("/none"), key: Path = Path("/none")) -> None:
    controller = CertificateController(api, logging.getLogger("test"), ca, key)  # type: ignore[arg-type]  # a fake
    controller.requests = {"a": obj}
    await controller._step(("csr", "a"))
    controller.on_delete(obj)


async def test_kubelets_request_is_approved_by_the_requesters_right() -> None:
    api = Api("nodeclient")
    await run(api, csr())
    [(subresource, status)] = api.patched
    assert (api.asked, subresource) == (["nodeclient"], "approval")
    [condition] = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("Approved", "AutoApproved")
    assert condition["message"] == "Auto approving kubelet client certificate after SubjectAccessReview."


async def test_own_renewal_needs_the_lesser_right() -> None:
    api = Api("selfnodeclient")
    await run(api, csr(username=NODE))
    assert api.asked == ["selfnodeclient"]
    assert api.patched[0][0] == "approval"


@pytest.mark.parametrize(
    "obj", [csr(KUBELET_SERVING, pem=request(dns=("n1",))), csr(CLIENT), csr(pem=request(organization="others"))]
)
async def test_other_requests_wait_for_a_user(obj: Object) -> None:
    api = Api("nodeclient", "selfnodeclient")
    await run(api, obj)
    assert (api.asked, api.patched) == ([], [])


async def test_request_without_the_right_stays_pending() -> None:
    api = Api()
    await run(api, csr())
    assert (api.asked, api.patched) == (["nodeclient"], [])


class LateRight(Api):
    """A binding that comes after the first review."""

    def __init__(self) -> None:
        super().__init__()
        self.approved = asyncio.Event()

    async def create(self, resource: Any, obj: Object) -> Object:
        answer = await super().create(resource, obj)
        self.rights = ("nodeclient",)
        return answer

    async def patch(self, *args: Any, **body: Any) -> Object:
        self.approved.set()
        return await super().patch(*args, **body)


async def test_request_is_approved_once_a_binding_gives_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.controllers.certificates.controller.NO_RIGHT_S", 0.01)
    api = LateRight()
    controller = CertificateController(api, logging.getLogger("test"), Path("/none"), Path("/none"))  # type: ignore[arg-type]  # a fake
    controller.requests = {"a": csr()}
    controller.on_add(csr())
    work = asyncio.create_task(controller.run())
    await asyncio.wait_for(api.approved.wait(), 60)
    work.cancel()
    controller.on_delete(csr())


async def test_approved_request_is_signed_by_the_ca(tmp_path: Path) -> None:
    api, (ca, key) = Api(), authority(tmp_path / "pki")
    obj = csr(KUBELET_SERVING, "Approved", pem=request(dns=("n1",)), expirationSeconds=3600)
    await run(api, obj, ca, key)
    [(subresource, status)] = api.patched
    made = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(ca.read_bytes()))
    assert subresource == "status"
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert made.not_valid_after_utc - made.not_valid_before_utc == datetime.timedelta(seconds=3900)


async def test_approved_request_that_breaks_its_signers_rules_fails(tmp_path: Path) -> None:
    api, (ca, key) = Api(), authority(tmp_path / "pki")
    await run(api, csr(KUBELET_SERVING, "Approved"), ca, key)
    [(subresource, status)] = api.patched
    assert subresource == "status"
    failed = status["conditions"][-1]
    assert (failed["type"], failed["reason"]) == ("Failed", "SignerValidationFailure")
    assert failed["message"] == "DNS or IP subjectAltName is required"


def test_second_common_name_of_a_request_is_not_signed(tmp_path: Path) -> None:
    """A node may ask for its own name only; the other would be its name for servers that read the first one."""
    other = x509.NameAttribute(NameOID.COMMON_NAME, "apiserver-kubelet-client")
    subject = x509.Name([other, *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, node) for node in NODES),
                         x509.NameAttribute(NameOID.COMMON_NAME, NODE)])  # fmt: skip
    hosts = [x509.DNSName("n1"), x509.RegisteredID(x509.ObjectIdentifier("1.2.3.4"))]
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    obj = csr(KUBELET_SERVING, pem=base64.b64encode(asked).decode())
    made = x509.load_pem_x509_certificate(
        base64.b64decode(sign(obj, *authority(tmp_path / "pki"), datetime.datetime.now(datetime.UTC)))
    )
    assert [each.value for each in made.subject] == [*NODES, NODE]
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName("n1")]


async def test_request_without_a_ca_to_sign_with_stays_approved() -> None:
    api = Api()
    await run(api, csr(KUBELET_CLIENT, "Approved"))
    assert (api.patched, api.deleted) == ([], [])


async def test_old_request_is_removed() -> None:
    api, obj = Api("nodeclient"), csr()
    obj["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    await run(api, obj)
    assert (api.deleted, api.patched) == (["a"], [])


def test_certificate_never_outlives_its_ca(tmp_path: Path) -> None:
    ca, key = authority(tmp_path / "pki")
    made = sign(csr(), ca, key, datetime.datetime.now(datetime.UTC))
    end = x509.load_pem_x509_certificate(base64.b64decode(made)).not_valid_after_utc
    assert end == x509.load_pem_x509_certificate(ca.read_bytes()).not_valid_after_utc


def test_certificate_of_an_unknown_version_is_invalid_and_has_no_end(tmp_path: Path) -> None:
    """A signer could not store it for an error of the server, and its request was tried again for ever."""
    ca, _ = authority(tmp_path / "pki")
    version, other = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x08"
    pem = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(ca.read_text()).replace(version, other))
    signed = csr()
    signed["status"]["certificate"] = base64.b64encode(pem.encode()).decode()
    (cause,) = RequestStrategy().validate_status(signed, csr())
    assert cause.message.endswith("8 is not a valid X509 version")
    assert expiry(signed["status"]["certificate"]) is None


async def test_controller_comes_back_for_a_request_that_gets_old() -> None:
    controller = CertificateController(Api(), logging.getLogger("test"), Path("/none"), Path("/none"))  # type: ignore[arg-type]  # a fake
    obj = csr()
    controller.requests = {"a": obj}
    await controller._step(("csr", "a"))
    await asyncio.sleep(0)
    assert ("csr", "a") in controller._queue._timers
    controller.on_delete(obj)
