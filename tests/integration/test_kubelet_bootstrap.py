"""A machine becomes a node as kubelet does it: bootstrap token, signing request, client certificate, renewal."""

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.api_judge import Answer, Client
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.authority import pem

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ROLES = {
    "bootstrap": ("system:node-bootstrapper", "system:bootstrappers:mine"),
    "approve": ("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers:mine"),
    "renew": ("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"),
}
KUBELET, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
TOKEN = "abcdef.0123456789abcdef"  # of a test
DEADLINE_S = 40.0
Key = ec.EllipticCurvePrivateKey


def signing_request(key: Key, node: str, signer: str, dns: str = "") -> Any:
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
    encoded = base64.b64encode(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()
    usages = ["digital signature", "server auth" if dns else "client auth"]
    return {"metadata": {"generateName": "csr-"}, "spec": {"request": encoded, "signerName": signer, "usages": usages}}


class Scene:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.admin = Client(plane.port, plane.tls())
        for name, (role, group) in ROLES.items():
            reference = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
            subject = {"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}
            body = {"metadata": {"name": f"test:{name}"}, "roleRef": reference, "subjects": [subject]}
            assert self.ask(self.admin, "POST", RBAC, body).status == 201
        data = {"token-id": TOKEN[:6], "token-secret": TOKEN[7:], "usage-bootstrap-authentication": "true"}
        data["auth-extra-groups"] = "system:bootstrappers:mine"
        secret = {
            "metadata": {"name": f"bootstrap-token-{TOKEN[:6]}"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": data,
        }
        assert self.ask(self.admin, "POST", "/api/v1/namespaces/kube-system/secrets", secret).status == 201

    def ask(self, client: Client, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = None if body is None else json.dumps(body).encode()
        return client.ask(method, path, raw, {"Content-Type": media, **headers})

    def issued(self, client: Client, name: str, **headers: str) -> Any:
        """Wait for the certificate, or another end, of a request."""
        return self.plane.until(
            "a certificate",
            lambda: self.ask(client, "GET", f"{REQUESTS}/{name}", **headers).json,
            DEADLINE_S,
            good=lambda obj: obj["status"].get("certificate"),
        )

    def node(self, key: Key, certificate: str, directory: Path) -> Client:
        (directory / "node.crt").write_bytes(base64.b64decode(certificate))
        (directory / "node.key").write_bytes(pem(key))
        context = ssl.create_default_context(cafile=str(self.plane.settings.layout.ca_cert))
        context.load_cert_chain(directory / "node.crt", directory / "node.key")
        return Client(self.plane.port, context)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with running_plane() as plane:
        key = plane.settings.layout.pki / "ca.key"
        key.write_bytes(pem(plane.authority._key))
        key.chmod(0o600)
        plane.spawn("controllers")
        made = Scene(plane)
        yield made
        made.admin.renew()


def test_machine_with_a_bootstrap_token_becomes_a_node(scene: Scene, tmp_path: Path) -> None:
    machine, bearer = Client(scene.plane.port, scene.plane.tls("")), {"Authorization": f"Bearer {TOKEN}"}
    key = ec.generate_private_key(ec.SECP256R1())

    def status() -> int:
        return scene.ask(machine, "GET", REQUESTS, **bearer).status

    scene.plane.until("the token holds", status, DEADLINE_S, good=lambda code: code == 200)
    made = scene.ask(machine, "POST", REQUESTS, signing_request(key, "fresh", KUBELET), **bearer)
    assert made.status == 201, made.body
    assert made.json["spec"]["username"] == f"system:bootstrap:{TOKEN[:6]}"
    issued = scene.issued(machine, made.json["metadata"]["name"], **bearer)
    assert [condition["reason"] for condition in issued["status"]["conditions"]] == ["AutoApproved"]

    node = scene.node(key, issued["status"]["certificate"], tmp_path)
    assert scene.ask(node, "POST", "/api/v1/nodes", {"metadata": {"name": "fresh"}}).status == 201
    assert scene.ask(node, "POST", "/api/v1/nodes", {"metadata": {"name": "other"}}).status == 403

    serving = scene.ask(node, "POST", REQUESTS, signing_request(key, "fresh", SERVING, dns="fresh"))
    name = serving.json["metadata"]["name"]
    again = scene.ask(node, "POST", REQUESTS, signing_request(key, "fresh", KUBELET))
    assert again.json["spec"]["username"] == "system:node:fresh"
    scene.issued(node, again.json["metadata"]["name"])
    other = scene.ask(node, "POST", REQUESTS, signing_request(key, "other", KUBELET))
    assert (other.status, "CN=system:node:fresh" in other.body.decode()) == (403, True)

    assert scene.ask(node, "GET", f"{REQUESTS}/{name}").json["status"] == {}, "nobody has approved it"
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}}
    assert scene.ask(node, "PATCH", f"{REQUESTS}/{name}/approval", approved).status == 403
    assert scene.ask(scene.admin, "PATCH", f"{REQUESTS}/{name}/approval", approved).status == 200
    certificate = scene.issued(node, name)["status"]["certificate"]
    leaf = x509.load_pem_x509_certificate(base64.b64decode(certificate))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fresh"]
    for client in (machine, node):
        client.renew()
