"""`nodeplane kubeconfig`: the identity, the mode and the address in the file of each program."""

import base64
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocols.process.layout import layout
from protocols.process.settings import save_settings
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of
from supervisor.cli.main import main
from supervisor.pki import certificates, issue

IDENTITIES = {
    "admin": ("kubernetes-admin", ["system:masters"]),
    "kube-scheduler": ("system:kube-scheduler", []),
    "kube-controller-manager": ("system:kube-controller-manager", []),
    "kube-proxy": ("system:kube-proxy", []),
    "kubelet": ("system:node:n7", ["system:nodes"]),
}


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """The root of a plane that has run once."""
    with TemporaryDirectory(prefix="np", dir="/tmp") as directory:
        where = layout(directory)
        issue.issue(where.pki, certificates.wanted("n1"))
        where.settings.parent.mkdir(parents=True, exist_ok=True)
        options = msgspec.convert({"root": directory, "node_name": "n1"}, PlaneOptions)
        save_settings(where.settings, settings_of(options, port=6443))
        yield Path(directory)


def written(root: Path, file: Path, *flags: str) -> Any:
    assert main(["--root", str(root), "kubeconfig", "-o", str(file), *flags]) == 0
    return yaml.safe_load(file.read_text())


@pytest.mark.parametrize("program", IDENTITIES)
def test_kubeconfig_for_a_program_has_its_identity(root: Path, tmp_path: Path, program: str) -> None:
    node = ("--node", "n7") if program == "kubelet" else ()
    config = written(root, tmp_path / "file", "--for", program, *node)
    entry, user = config["users"][0], IDENTITIES[program]
    data = base64.b64decode(entry["user"]["client-certificate-data"])
    certificate = x509.load_pem_x509_certificate(data)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((root / "pki/ca.crt").read_bytes()))
    names = certificate.subject
    assert entry["name"] == user[0]
    assert [each.value for each in names.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user[0]]
    assert [each.value for each in names.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == user[1]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_kubeconfig_is_private_and_names_the_api(root: Path, tmp_path: Path) -> None:
    config = written(root, tmp_path / "file", "--for", "kube-scheduler", "--server", "localhost:7443")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://localhost:7443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == (root / "pki/ca.crt").read_bytes()


WRONG = [
    (("--for", "kubelet"), "--for kubelet needs the name of its node: --node NAME"),
    (("--for", "kubelet", "--node", "Not_a_name"), "Not_a_name"),
    (("--for", "kube-proxy", "--node", "n1"), "--node is for kubelet"),
    (("--for", "kube-dns"), "invalid choice: 'kube-dns'"),
    ((), "--for"),
    (("--for", "admin", "--server", "https://elsewhere:6443"), "start the plane with --api-names elsewhere"),
]


@pytest.mark.parametrize(("flags", "complaint"), WRONG)
def test_kubeconfig_with_wrong_flags_is_a_usage_error(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], complaint: str
) -> None:
    try:
        code = main(["--root", str(root), "kubeconfig", "-o", str(tmp_path / "file"), *flags])
    except SystemExit as ended:  # of the parser
        code = int(ended.code or 0)
    assert code == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "file").exists()


def test_kubeconfig_below_no_plane_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path), "kubeconfig", "--for", "admin"]) != 0
    assert "no plane has run below" in capsys.readouterr().err


def test_kubeconfig_without_the_key_of_the_ca_asks_for_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = root / "pki" / "ca.key"
    away = key.rename(tmp_path / "ca.key")
    try:
        assert main(["--root", str(root), "kubeconfig", "--for", "admin", "-o", "-"]) == 1
        assert "put ca.key back" in capsys.readouterr().err
    finally:
        away.rename(key)
