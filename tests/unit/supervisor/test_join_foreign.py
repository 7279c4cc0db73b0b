"""A node joins with a kubeconfig that another tool wrote for a kubelet: certificates in files, no serving pair."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from cryptography import x509

from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of
from supervisor.pki import certificates, issue, issue_user
from supervisor.pki.node_config import NodeConfig, NodeConfigInvalid
from supervisor.startup.join import joined_settings, read_node_config

PARTS = ("certificate-authority", "client-certificate", "client-key")


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pki")
    issue.issue(directory, certificates.wanted("n1"))
    return directory


def kubelet_conf(pki: Path, where: Path, *, files: bool, program: str = "kubelet", **changes: Any) -> Path:
    """The file as kubeadm writes it: the user is `default-auth`, the certificate and its key may be in one file."""
    what = issue_user.certificate_of(program, "n7")
    access = issue_user.issue(pki, what, "https://127.0.0.1:6443")
    contents = {"certificate-authority": access.ca, "client-certificate": access.certificate + access.key,
                "client-key": access.certificate + access.key}  # fmt: skip
    if files:
        for name in ("ca.crt", "current.pem"):
            (where / name).write_bytes(contents["certificate-authority" if name == "ca.crt" else "client-key"])
        values = {"certificate-authority": str(where / "ca.crt"), "client-certificate": "current.pem",
                  "client-key": "current.pem"}  # fmt: skip
    else:
        values = {f"{name}-data": base64.b64encode(contents[name]).decode() for name in PARTS}
    values |= changes
    cluster = {"server": "https://127.0.0.1:6443"} | {
        k: v for k, v in values.items() if k.startswith(("cert", "server"))
    }
    user = {k: v for k, v in values.items() if k.startswith("client") and v is not None}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "default-context",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "users": [{"name": "default-auth", "user": user}],
        "contexts": [{"name": "default-context", "context": {"cluster": "default-cluster", "user": "default-auth"}}],
    }  # fmt: skip
    path = where / "kubelet.conf"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("files", [True, False])
def test_read_node_config_of_a_kubelet_gives_a_node_with_a_serving_pair(pki: Path, tmp_path: Path, files: bool) -> None:
    found = read_node_config(kubelet_conf(pki, tmp_path, files=files), "10.1.2.3")
    assert isinstance(found, NodeConfig)
    assert (found.node, found.server) == ("n7", "https://127.0.0.1:6443")
    assert found.ca == (pki / "ca.crt").read_bytes()
    certificate = x509.load_pem_x509_certificate(found.serving.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.address == "10.1.2.3"
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.1.2.3"]
    assert set(names.get_values_for_type(x509.DNSName)) == {"n7", found.serving_name}
    certificate.verify_directly_issued_by(certificate)
    client = x509.load_pem_x509_certificate(found.client.certificate)
    assert found.not_after == client.not_valid_after_utc.timestamp()


def test_read_node_config_of_an_api_on_this_machine_serves_for_loopback(pki: Path, tmp_path: Path) -> None:
    found = read_node_config(kubelet_conf(pki, tmp_path, files=True))
    certificate = x509.load_pem_x509_certificate(found.serving.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    settings = settings_of(msgspec.convert({"root": str(tmp_path), "node_name": "n7"}, PlaneOptions), port=6443)
    assert joined_settings(settings, found).node_ip == "127.0.0.1"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"program": "admin"}, "is of 'kubernetes-admin', which is no node"),
    ({"files": True, "client-key": "missing.pem"}, "missing.pem"),
    ({"client-certificate-data": "?"}, "client-certificate-data is not base64"),
    ({"client-certificate-data": "AAAA"}, "cannot be read"),
    ({"client-key-data": None}, "has neither client-key-data nor client-key"),
    ({"server": "https://[::1"}, "has no usable server 'https://[::1'"),
    ({"server": "https://h:port"}, "has no usable server 'https://h:port'"),
]


@pytest.mark.parametrize(("changes", "complaint"), WRONG)
def test_read_node_config_of_a_damaged_kubelet_file_is_one_line(
    pki: Path, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    path = kubelet_conf(pki, tmp_path, **{"files": False, **changes})
    with pytest.raises(NodeConfigInvalid) as caught:
        read_node_config(path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
