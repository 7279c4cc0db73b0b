"""Logs, ports, locks, certificates, kubeconfig: what the supervisor keeps in files."""

import errno
import io
import json
import os
import shutil
import socket
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import msgspec
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from actors.apiserver.http.authentication.signing import load_keys
from protocols.errors import SettingsInvalid
from protocols.process.files import is_locked
from protocols.process.layout import layout
from protocols.process.mountinfo import mounts_below
from protocols.process.settings import load_settings
from supervisor.base.errors import AlreadyRunning, PkiFailed, PortTaken
from supervisor.base.options import PlaneOptions
from supervisor.pki import certificates, issue
from supervisor.pki.kubeconfig import write_kubeconfig
from supervisor.report.console import Console
from supervisor.root import leftovers, lock, logs
from supervisor.root.lock import SupervisorLocks, supervisors
from supervisor.startup.prepare import _retained_port, prepare
from supervisor.startup.prepared import reserve

AnyKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def test_logs_large_are_bounded_and_writers_go_on(root: Path) -> None:
    path = root / "a.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100 + b"y" * 50)
        assert logs.rotate(root, limit=50) == [path]
        writer.write(b"more\n")
    assert path.read_bytes() == b"more\n"
    assert (root / "a.log.1").read_bytes() == b"y" * 50, "a runaway log would fill the disk twice"
    assert logs.rotate(root, limit=50) == []


def test_log_disk_full_stays_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sendfile", Mock(side_effect=(20, OSError(errno.ENOSPC, "No space left on device"))))
    (root / "a.log").write_bytes(b"x" * 100)
    logs.rotate(root, limit=50)
    assert [(path.name, path.stat().st_size) for path in root.glob("a.log*")] == [("a.log", 0)]


def test_console_closed_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's disk is full, or nobody reads our output any more."""

    class Deaf(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Deaf())
    monkeypatch.setattr(sys, "stdout", Deaf())
    console = Console("supervisor")
    console.say("an actor ended")
    console.ready("all is well")
    console.failed("all is lost")


def test_last_line_is_of_this_start(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "a.log"
    path.write_text("old fault\n")
    since = logs.size(path)
    assert logs.last_line(path, since) == ""
    with path.open("a") as file:
        file.write("Traceback\nValueError: no\n\n")
    assert logs.last_line(path, since) == "ValueError: no"
    assert logs.last_line(root / "none.log") == ""
    monkeypatch.setattr(os, "statvfs", Mock(return_value=Mock(f_bavail=0)))
    assert logs.last_line(path, path.stat().st_size) == f"the disk of {root} is full"
    assert logs.last_line(path, since) == "ValueError: no"


def test_tail_log_rotated_gives_whole_lines(root: Path) -> None:
    path = root / "a.log"
    path.write_bytes(b"one\ntw")
    tail = logs.Tail(path)
    assert tail.lines() == ["one"]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert tail.lines() == ["two"]
    path.write_bytes(b"3\n")
    assert tail.lines() == ["3"]


def test_log_lines_are_shown_printable(tmp_path: Path) -> None:
    path = tmp_path / "devices.log"
    path.write_bytes(b"WARNING\tplugin said id=gpu\x1b[2J\rx\nINFO next\n")
    assert logs.Tail(path).lines() == [r"WARNING plugin said id=gpu\x1b[2J\rx", "INFO next"]


def test_console_in_the_foreground_shows_warnings_of_actors_that_were_added(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console, line = Console("supervisor"), "2026-01-01 00:00:00,000 WARNING apiserver: slow\n"
    console.watch(root, ["a"])
    for names in (["a"], ["a", "b"], ["a", "b"]):
        for name in "ab":
            with logs.path_of(root, name).open("a") as log:
                log.write(line)
        console.show_new(root, names)
    assert capsys.readouterr().err == f"a: {line}" * 3 + f"b: {line}"


@pytest.mark.parametrize("content", [b"", b'{"port": 70000}', b'{"port": -1}', None])
def test_settings_that_are_damaged_or_a_pipe_name_no_port(root: Path, content: bytes | None) -> None:
    where = layout(str(root))
    where.run.mkdir()
    os.mkfifo(where.settings) if content is None else where.settings.write_bytes(content)
    assert _retained_port(where) == 0
    with pytest.raises(SettingsInvalid):
        load_settings(where.settings)


def test_reserve_taken_port_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(PortTaken, match="choose another with --port"):
            reserve(other.getsockname()[1])


def test_reserve_port_admits_own_servers_only() -> None:
    reservation = reserve(0)
    with socket.socket() as server, socket.socket() as stranger:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", reservation.port))
        server.listen()
        with pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", reservation.port))
        socket.create_connection(("127.0.0.1", reservation.port), timeout=60).close()
    reservation.release()
    again = reserve(0, remembered=reservation.port)
    assert again.port == reservation.port
    again.release()


def test_prepare_after_another_version_keeps_the_port(root: Path) -> None:
    reservation = reserve(0)
    reservation.release()
    (root / "run").mkdir(mode=0o700)
    (root / "run" / "settings.json").write_text(json.dumps({"port": reservation.port, "of_another_version": 1}))
    prepared = prepare(PlaneOptions(root=str(root), port=0, metrics_port=0))
    prepared.release()
    assert prepared.settings.port == reservation.port


def test_lock_second_supervisor_is_refused(root: Path) -> None:
    first = SupervisorLocks(root, "supervisor")
    for name in ("supervisor", "supervisor-node"):
        with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"):
            SupervisorLocks(root, name)
    assert supervisors(root) == {"supervisor": os.getpid()}
    first.release()
    assert supervisors(root) == {}


def test_lock_groups_run_beside_but_not_twice(root: Path) -> None:
    node, control = SupervisorLocks(root, "supervisor-node"), SupervisorLocks(root, "supervisor-control")
    for name in ("supervisor-node", "supervisor"):
        with pytest.raises(AlreadyRunning):
            SupervisorLocks(root, name)
    node.release()
    control.release()


def test_lock_of_a_group_that_ends_meanwhile_is_held_by_the_next(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file for which it waited is removed by its holder; the lock must be that of the new one."""
    first = SupervisorLocks(root, "supervisor-node")
    monkeypatch.setattr(lock, "time", SimpleNamespace(sleep=lambda _: first.release()))
    second = SupervisorLocks(root, "supervisor-node")
    assert not second.lost
    assert supervisors(root) == {"supervisor-node": os.getpid()}
    second.release()


def test_mounts_below_a_link_to_a_root_are_found(root: Path) -> None:
    (root / "link").symlink_to("/dev")
    assert mounts_below(root / "link") == mounts_below(Path("/dev")) != []


def test_leftovers_stale_sockets_are_removed(root: Path) -> None:
    for name in ("dead", "alive"):
        (root / f"{name}.rpc").touch()
        (root / f"{name}.lock").touch()
    (root / "orphan.pub").touch()
    lock = SupervisorLocks(root, "supervisor")
    os.rename(root / "supervisor.pid", root / "alive.lock")
    assert is_locked(root / "alive.lock")
    leftovers.clean(root)
    assert not (root / "dead.rpc").exists()
    assert not (root / "orphan.pub").exists()
    assert (root / "alive.rpc").exists()
    assert leftovers.wait_released(root, ["dead", "alive"], 0.02) == ["alive"]
    lock.release()


def test_certificates_are_made_once(root: Path) -> None:
    directory, what = root / "pki", certificates.wanted("n1")
    assert not certificates.current(directory, what)
    issue.issue(directory, what)
    assert certificates.current(directory, what)
    authority = (directory / "ca.crt").read_bytes()
    leaf = x509.load_pem_x509_certificate((directory / "podworker.crt").read_bytes())
    assert leaf.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    for path in directory.iterdir():
        assert path.stat().st_mode & 0o077 == 0 or path.suffix in (".crt", ".pub"), path
    assert directory.stat().st_mode & 0o777 == 0o700
    keys = (directory / "sa.key").read_bytes()
    assert not certificates.current(directory, certificates.wanted("n2")), "another node name"
    issue.issue(directory, certificates.wanted("n2"))
    assert (directory / "ca.crt").read_bytes() == authority, "the CA stays"
    assert (directory / "sa.key").read_bytes() == keys


def test_certificates_are_renewed_in_time(root: Path) -> None:
    directory, what = root / "pki", certificates.wanted("n1")
    issue.issue(directory, what)
    manifest = msgspec.json.decode((directory / certificates.MANIFEST).read_bytes(), type=certificates.Manifest)
    assert not certificates.current(directory, what, now=manifest.not_after - 59 * certificates.DAY_S)
    for name in ("apiserver.key", "ca.crt", "etcd/ca.key", "etcd/server.crt", "sa.key"):
        good = (directory / name).read_bytes()
        for bad in (b"", os.urandom(300), good[:-20]):
            (directory / name).write_bytes(bad)
            assert not certificates.current(directory, what), "a damaged file"
        (directory / name).write_bytes(good)
    assert certificates.current(directory, what)
    whole = (directory / certificates.MANIFEST).read_bytes()
    (directory / certificates.MANIFEST).write_bytes(whole.replace(b"n1", b"\xff1"))
    assert not certificates.current(directory, what), "a damaged manifest"
    (directory / certificates.MANIFEST).write_bytes(whole)
    (directory / "sa.pub").write_bytes(good[:-20])
    issue.issue(directory, what)
    assert (directory / "sa.key").read_bytes() == good, "tokens outlive a damaged file beside their key"
    assert len(load_keys(directory / "sa.key").believed) == 1
    (directory / "admin.key").unlink()
    assert not certificates.current(directory, what)


@pytest.mark.parametrize(("made", "used"), [(15, 0), (0, -56)])
def test_certificates_of_a_wrong_clock_are_explained(
    root: Path, monkeypatch: pytest.MonkeyPatch, made: int, used: int
) -> None:
    """The clock was years ahead when they were made, or is that of a machine without a battery now."""
    directory, what = root / "pki", certificates.wanted("n1")

    def set_clock(years: int) -> None:
        now = datetime.now(UTC) + timedelta(days=365 * years)
        wrong = SimpleNamespace(datetime=Mock(now=lambda zone: now), timedelta=timedelta, UTC=UTC)
        monkeypatch.setattr(issue, "datetime", wrong)
        monkeypatch.setattr(certificates, "time", SimpleNamespace(time=now.timestamp))

    set_clock(made)
    issue.issue(directory, what)
    before = (directory / "ca.crt").read_bytes()
    set_clock(used)
    with pytest.raises(PkiFailed, match=r"ca.crt is valid from .* on, and the clock says .*; set the clock, or"):
        issue.issue(directory, what)
    assert (directory / "ca.crt").read_bytes() == before


@pytest.mark.parametrize("renamed", [1, 3, 9])
def test_certificates_whose_renewal_was_killed_are_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, renamed: int
) -> None:
    """All files are there and whole then, of two CAs."""
    directory, what, renames = root / "pki", certificates.wanted("n1"), iter(range(100))
    issue.issue(directory, what)
    for name in ("ca.crt", "ca.key"):
        (directory / name).unlink()
    rename = os.rename

    def killed(source: Path, target: Path) -> None:
        if next(renames) >= renamed:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        issue.issue(directory, what)
    assert not certificates.current(directory, what)
    monkeypatch.setattr(os, "rename", rename)
    issue.issue(directory, what)
    leaf, authority = (x509.load_pem_x509_certificate((directory / f"{n}.crt").read_bytes()) for n in ("admin", "ca"))
    leaf.verify_directly_issued_by(authority)


def issuer(path: Path) -> str:
    return x509.load_pem_x509_certificate(path.read_bytes()).issuer.rfc4514_string()


def test_certificate_of_node_names_no_api(root: Path) -> None:
    issue.issue(root / "pki", certificates.wanted("localhost", ("n1.example",)))
    names = [names_of(root / "pki" / f"{file}.crt") for file in ("node-serving", "apiserver")]
    assert names[0] == {"localhost.nodes.nodeplane.internal"}
    assert not names[0] & names[1]


def names_of(path: Path) -> set[str]:
    found = x509.load_pem_x509_certificate(path.read_bytes()).extensions
    return {str(name.value) for name in found.get_extension_for_class(x509.SubjectAlternativeName).value}


def test_certificates_of_store_have_own_ca(root: Path) -> None:
    where = layout(str(root))
    issue.issue(where.pki, certificates.wanted("n1"))
    own = [path for path in where.pki.rglob("*.crt") if issuer(path) == "CN=nodeplane-etcd-ca"]
    assert set(own) == {where.etcd_ca, where.etcd_server[0], where.etcd_client[0]}
    assert where.ca_cert.read_bytes() != where.etcd_ca.read_bytes()
    assert where.etcd_ca.parent.stat().st_mode & 0o777 == 0o700
    for path in where.pki.rglob("*.key"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    kept = where.etcd_ca.read_bytes()
    issue.issue(where.pki, certificates.wanted("n2"))
    assert where.etcd_ca.read_bytes() == kept


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())])
def test_authority_put_in_place_of_ours_signs_all_anew(root: Path, key: AnyKey) -> None:
    """Its key identifier is not derived from the key as ours is, like that of recent Go programs."""
    directory, what = root / "pki", certificates.wanted("n1")
    issue.issue(directory, what)
    identifier = x509.SubjectKeyIdentifier(b"another-20-byte-name")
    files = {"ca.crt": own_authority(key, identifier), "ca.key": pem(key)}
    for name, content in files.items():
        (directory / name).write_bytes(content)
    assert not certificates.current(directory, what)
    issue.issue(directory, what)
    assert certificates.current(directory, what)
    assert {name: (directory / name).read_bytes() for name in files} == files
    leaf, authority = (x509.load_pem_x509_certificate((directory / f"{n}.crt").read_bytes()) for n in ("admin", "ca"))
    leaf.verify_directly_issued_by(authority)
    named = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert named.key_identifier == identifier.digest
    assert issuer(directory / "etcd" / "server.crt") == "CN=nodeplane-etcd-ca"


@pytest.mark.parametrize("encrypted", [True, False])
def test_authority_whose_key_cannot_sign_is_not_replaced(root: Path, encrypted: bool) -> None:
    directory, what = root / "pki", certificates.wanted("n1")
    issue.issue(directory, what)
    key = ec.generate_private_key(ec.SECP256R1()) if encrypted else ed25519.Ed25519PrivateKey.generate()
    seal = serialization.BestAvailableEncryption(b"x") if encrypted else serialization.NoEncryption()
    chosen = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, seal)
    for name in ("ca.key", "sa.key"):
        before = (directory / name).read_bytes()
        (directory / name).write_bytes(chosen)
        (directory / "sa.pub").unlink()
        with pytest.raises(PkiFailed, match=rf"{name} cannot be used; put an ECDSA or RSA key without a passphrase"):
            issue.issue(directory, what)
        assert (directory / name).read_bytes() == chosen
        (directory / name).write_bytes(before)
        (directory / "sa.pub").touch()


def test_authority_whose_key_is_kept_elsewhere_signs_when_it_is_back(root: Path) -> None:
    directory, what = root / "pki", certificates.wanted("n1")
    issue.issue(directory, what)
    authority, key = (directory / "ca.crt").read_bytes(), (directory / "ca.key").read_bytes()
    (directory / "ca.key").unlink()
    assert certificates.current(directory, what)
    (directory / "admin.crt").unlink()
    with pytest.raises(PkiFailed, match=r"ca\.key is missing; put it back for this start, or remove"):
        issue.issue(directory, what)
    (directory / "ca.key").write_bytes(key)
    issue.issue(directory, what)
    assert (directory / "ca.crt").read_bytes() == authority
    assert certificates.current(directory, what)


def test_authority_that_ends_stays_beside_the_next(root: Path) -> None:
    """The clock may be wrong, and its key is the only one that clients trust."""
    directory, key = root / "pki", ec.generate_private_key(ec.SECP256R1())
    directory.mkdir()
    ends = own_authority(key, x509.SubjectKeyIdentifier.from_public_key(key.public_key()), days=10), pem(key)
    for name, content in zip(("ca.crt", "ca.key"), ends, strict=True):
        (directory / name).write_bytes(content)
    issue.issue(directory, certificates.wanted("n1"))
    assert issuer(directory / "admin.crt") == "CN=nodeplane-ca"
    assert tuple((directory / f"{name}.old").read_bytes() for name in ("ca.crt", "ca.key")) == ends
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in directory.glob("*.old"))


def own_authority(key: AnyKey, identifier: x509.SubjectKeyIdentifier, days: int = 1000) -> bytes:
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own-ca")]), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def pem(key: AnyKey) -> bytes:
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def test_certificates_of_earlier_version_are_kept(root: Path) -> None:
    where, what = layout(str(root)), certificates.wanted("n1")
    issue.issue(where.pki, what)
    known = where.ca_cert.read_bytes(), (where.pki / "sa.key").read_bytes()
    shutil.rmtree(where.etcd_ca.parent)
    for path in where.etcd_client:
        path.unlink()
    for name in certificates.OBSOLETE_FILES:
        (where.pki / name).write_bytes(known[0])
    former = [leaf for leaf in what.certificates if leaf.authority == certificates.CLUSTER_CA]
    earlier = certificates.Manifest(certificates.Wanted(tuple(former)), 4e9)
    (where.pki / certificates.MANIFEST).write_bytes(msgspec.json.encode(earlier))
    assert not certificates.current(where.pki, what)
    issue.issue(where.pki, what)
    assert certificates.current(where.pki, what)
    assert issuer(where.etcd_client[0]) == "CN=nodeplane-etcd-ca"
    assert (where.ca_cert.read_bytes(), (where.pki / "sa.key").read_bytes()) == known
    assert not any((where.pki / name).exists() for name in certificates.OBSOLETE_FILES)


def test_kubeconfig_has_credentials(root: Path) -> None:
    where = layout(str(root))
    issue.issue(where.pki, certificates.wanted("n1"))
    write_kubeconfig(where, "https://127.0.0.1:7000")
    config = yaml.safe_load(where.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7000"
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert where.kubeconfig.stat().st_mode & 0o777 == 0o600
    before = where.kubeconfig.stat().st_mtime_ns
    write_kubeconfig(where, "https://127.0.0.1:7000")
    assert where.kubeconfig.stat().st_mtime_ns == before
