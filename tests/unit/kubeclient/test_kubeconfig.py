"""Kubeconfigs: what is read of them, which kinds of access are rejected, and that no error shows a secret."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocols.kubeclient.kubeconfig import KubeconfigUnusable, client_options

SERVER = "https://h:1"
SECRET = "s3cret"
CERTIFICATE = {"client-certificate-data": "YWJj", "client-key-data": "ZGVm"}


def written(folder: Path, user: object = CERTIFICATE, **cluster: object) -> Path:
    """Return a kubeconfig of this user and cluster beside another context."""
    context = {"name": "c", "context": {"cluster": "k", "user": "u"}}
    config = {
        "contexts": [{"name": "other", "context": {"cluster": "other", "user": "other"}}, context],
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": SERVER, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(KubeconfigUnusable) as caught, client_options(path):
        pass
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_options_of_a_certificate_are_files_for_a_while(tmp_path: Path) -> None:
    path = written(tmp_path, server=f"{SERVER}/", **{"certificate-authority": "ca.crt", "tls-server-name": "api"})
    with client_options(path) as options:
        assert (options.server, options.ca, options.server_name) == (SERVER, tmp_path / "ca.crt", "api")
        assert options.cert is not None
        assert options.key is not None
        assert (options.cert.read_text(), options.key.read_text()) == ("abc", "def")
        assert options.key.stat().st_mode & 0o077 == 0
        assert str(options.key.resolve()).startswith("/memfd:"), "a killed process leaves no key on a disk"
        assert options.token_file is None
    assert not options.key.exists()


def test_options_of_a_token_hold_no_secret(tmp_path: Path) -> None:
    with client_options(written(tmp_path, {"token": SECRET}), timeout=20.0) as options:
        assert options.token_file is not None
        assert options.token_file.read_text() == SECRET
        assert options.token_file.stat().st_mode & 0o077 == 0
        assert SECRET not in repr(options)
        assert (options.ca, options.cert, options.insecure, options.timeout) == (None, None, False, 20.0)
    assert not options.token_file.exists()


def test_data_precedes_files_and_a_token_file_the_token(tmp_path: Path) -> None:
    user = {"token": SECRET, "tokenFile": "token", "client-certificate": "other", "client-key": "k", **CERTIFICATE}
    with client_options(written(tmp_path, user)) as options:
        assert options.token_file == tmp_path / "token"
        assert options.cert is not None
        assert options.cert.read_text() == "abc"


def test_insecure_needs_no_ca(tmp_path: Path) -> None:
    path = written(tmp_path, **{"insecure-skip-tls-verify": True, "certificate-authority": "ca.crt"})
    with client_options(path) as options:
        assert (options.insecure, options.ca) == (True, None)
    with client_options(written(tmp_path, **{"insecure-skip-tls-verify": "true"})) as options:
        assert not options.insecure, "only true itself turns the check off"


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({}, "names no client certificate and no token"),
        ({"client-certificate": "a"}, "names no client-key"),
        ({"client-key": "a"}, "names no client-certificate"),
        ({"client-certificate-data": SECRET}, "client-certificate-data is not base64"),
        ({"exec": {"command": "get-token", "args": [SECRET]}}, "`exec` of user 'u' is not supported"),
        ({"auth-provider": {"name": "gcp"}, "token": SECRET}, "`auth-provider` of user 'u' is not supported"),
        ({"username": "u", "password": SECRET}, "`username` of user 'u' is not supported"),
        ({"as": "admin", "token": SECRET}, "`as` of user 'u' is not supported"),
        (SECRET, "no kubeconfig with a current context"),
        ([SECRET], "no kubeconfig with a current context"),
    ],
)
def test_unsupported_user_is_named(tmp_path: Path, user: Any, words: str) -> None:
    assert words in refusal(written(tmp_path, user))


@pytest.mark.parametrize("server", ["http://h:1", "", None, [SERVER]])
def test_server_without_tls_is_rejected(tmp_path: Path, server: object) -> None:
    assert "names no https server" in refusal(written(tmp_path, server=server))


@pytest.mark.parametrize(
    "text",
    ["a: [", f"token: {SECRET}\n\tx: {SECRET}", "contexts: []\ncurrent-context: x\n", "", "[]", "contexts: 1",
     "contexts: [1]\ncurrent-context: x"],
)  # fmt: skip
def test_file_without_a_current_context_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    assert "is no kubeconfig with a current context" in refusal(tmp_path / "config")


def test_missing_file_is_named_with_what_makes_one(tmp_path: Path) -> None:
    text = refusal(tmp_path / "config")
    assert "no such file or directory" in text
    assert "start a plane with `nodeplane up`" in text


def test_invalid_data_of_the_ca_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, **{"certificate-authority-data": base64.b64encode(b"x").decode() + "?"})
    assert "certificate-authority-data is not base64" in refusal(path)
