"""The context of a listening side: its own chain is not made up, and the client's certificate is checked."""

import contextlib
import ctypes
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocols.process import tls
from protocols.process.tls import Renewed, ServerContext, client_context, server_context, serving
from tests.support.authority import Authority, write_self_signed
from tests.support.store_lab import short_directory

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def pki() -> Iterator[Path]:
    """Certificates of two authorities."""
    with short_directory() as made:
        for name in ("ours", "theirs"):
            authority = Authority(made / name)
            authority.issue("server", f"{name}-server")
            authority.issue("client", f"{name}-client")
        yield made


def context(pki: Path, name: str = "ours", curve: str = "") -> ServerContext:
    made = server_context(pki / name / "server.crt", pki / name / "server.key", pki / name / "ca.crt")
    if curve:
        made.context.set_ecdh_curve(curve)
    return made


def listening(pki: Path, curve: str = "") -> ssl.SSLContext:
    return serving(Renewed((), lambda: context(pki, curve=curve)))


def strict(ca: Path) -> ssl.SSLContext:
    """What a client makes by default since Python 3.13."""
    context = ssl.create_default_context(cafile=str(ca))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def calling(pki: Path, version: ssl.TLSVersion, name: str = "") -> ssl.SSLContext:
    """A client that trusts us; `name`: whose client's certificate it has."""
    context = strict(pki / "ours" / "ca.crt")
    context.minimum_version = context.maximum_version = version
    if name:
        context.load_cert_chain(pki / name / "client.crt", pki / name / "client.key")
    return context


class Pair:
    """Both sides of a connection in memory, moved by hand."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self.up, self.down = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._inbox = ssl.MemoryBIO()
        self.server = server.wrap_bio(self.up, self.down, server_side=True)
        self.client = client.wrap_bio(self._inbox, self.up, server_hostname="localhost")
        self.told = b""
        """By the server."""

    def shake(self) -> None:
        """Each a few times: it may take another round to agree on a curve."""
        for _ in range(5):
            step(self.client)
            step(self.server)
            self.deliver()

    def deliver(self) -> None:
        data = self.down.read()
        self.told += data
        self._inbox.write(data)

    def subject(self) -> str:
        """Whom the server takes the client for."""
        certificate: Any = self.server.getpeercert() or {"subject": ()}
        return next((value for pairs in certificate["subject"] for key, value in pairs if key == "commonName"), "")


def step(side: ssl.SSLObject) -> None:
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_is_known_by_its_certificate_or_is_nobody(pki: Path, version: ssl.TLSVersion) -> None:
    for name, subject in (("ours", "ours-client"), ("", "")):
        pair = Pair(listening(pki), calling(pki, version, name))
        pair.shake()
        assert pair.subject() == subject


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_of_another_ca_is_refused(pki: Path, version: ssl.TLSVersion) -> None:
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        Pair(listening(pki), calling(pki, version, "theirs")).shake()


def test_the_ca_is_not_sent_along(pki: Path) -> None:
    """In TLS 1.2 certificates can be read on the way."""
    pair = Pair(listening(pki), calling(pki, ssl.TLSVersion.TLSv1_2))
    pair.shake()
    sent = {name: ssl.PEM_cert_to_DER_cert((pki / "ours" / f"{name}.crt").read_text()) for name in ("server", "ca")}
    assert sent["server"] in pair.told
    assert sent["ca"] not in pair.told


def test_a_server_that_waits_before_the_first_byte_and_in_the_middle_of_a_message_checks_all_the_same(
    pki: Path,
) -> None:
    for name in ("ours", "theirs"):
        pair = Pair(listening(pki), calling(pki, ssl.TLSVersion.TLSv1_3, name))
        step(pair.server)
        step(pair.client)
        hello = pair.up.read()
        for part in (hello[:7], hello[7:]):
            pair.up.write(part)
            step(pair.server)
        pair.deliver()
        if name == "ours":
            pair.shake()
            assert pair.subject() == "ours-client"
        else:
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
                pair.shake()


def test_a_client_whose_curve_is_not_ours_is_asked_again_and_checked(pki: Path) -> None:
    server = listening(pki, curve="secp384r1")
    pair = Pair(server, calling(pki, ssl.TLSVersion.TLSv1_3, "ours"))
    pair.shake()
    assert pair.subject() == "ours-client"
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        Pair(server, calling(pki, ssl.TLSVersion.TLSv1_3, "theirs")).shake()


def test_a_handshake_ends_with_the_ca_it_began_with(pki: Path) -> None:
    """Files may be replaced while the client still looks for its own certificate."""
    file = pki / "changes"
    file.write_text("ours")
    renewed = Renewed((file,), lambda: context(pki, file.read_text()))
    server = serving(renewed)
    pair = Pair(server, calling(pki, ssl.TLSVersion.TLSv1_3, "ours"))
    step(pair.client)
    step(pair.server)
    file.write_text("theirs")
    assert renewed.now() is not None
    pair.deliver()
    pair.shake()
    assert pair.subject() == "ours-client"
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        Pair(server, calling(pki, ssl.TLSVersion.TLSv1_3, "ours")).shake()


def test_a_server_that_signs_its_own_certificate_passes_strict_verification(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(write_self_signed(tmp_path, "hook", ["localhost"]))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "hook.crt", tmp_path / "hook.key")
    pair = Pair(server, strict(tmp_path / "ca.crt"))
    pair.shake()
    assert pair.client.getpeercert()


@pytest.mark.parametrize("given", [Path, bytes, None])
def test_servers_of_others_are_verified_as_programs_in_go_do(
    pki: Path, given: type | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever Python runs this, its default is that of 3.13."""
    default = ssl.create_default_context

    def of_3_13(**options: Any) -> ssl.SSLContext:
        context = default(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", of_3_13)
    file = pki / "ours" / "ca.crt"
    context = client_context(file.read_bytes() if given is bytes else given(file) if given else None)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_memory_of_an_unknown_build_of_python_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tls.disable_sessions(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("it was read"))
    assert not tls.disable_sessions(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)), "resumed handshakes are refused instead"
    assert not tls.disable_own_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def test_files_that_could_not_be_read_once_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All descriptors may be in use at the moment of a rotation, which comes once in months."""
    file, faults = tmp_path / "file", list[OSError]()
    file.write_text("old")

    def make() -> str:
        if faults:
            raise faults.pop()
        return file.read_text()

    renewed = Renewed((file,), make)
    faults.append(OSError(24, "Too many open files"))
    file.write_text("newer")
    assert [renewed.now(), renewed.now()] == ["old", "old"]
    monkeypatch.setattr(tls, "AGAIN_S", 0.0)
    faults.append(OSError(24, "Too many open files"))
    file.write_text("newest")
    assert [renewed.now(), renewed.now()] == ["old", "newest"]
