"""Debian's etcdctl, over loopback with mutual TLS, against our store."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.store_lab import Authority, Lab, lab, until


class Ctl:
    def __init__(self, binary: str, lab: Lab) -> None:
        self._binary, self._lab = binary, lab
        self.endpoint = (lab.root / "run" / "store.addr").read_text().strip()

    def command(self, *arguments: str, user: str = "store-client") -> list[str]:
        pki = self._lab.layout.pki
        tls = [f"--cacert={pki}/ca.crt", f"--cert={pki}/{user}.crt", f"--key={pki}/{user}.key"]
        limits = ["--command-timeout=5s", "--dial-timeout=2s"]
        return [self._binary, f"--endpoints=https://{self.endpoint}", *tls, *limits, *arguments]

    def run(self, *arguments: str, text: str = "") -> str:
        environment = {**os.environ, "ETCDCTL_API": "3"}
        command = self.command(*arguments)
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, timeout=20)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def ctl() -> Iterator[Ctl]:
    binary = shutil.which("etcdctl")
    if binary is None:
        pytest.skip("etcdctl is not installed (Debian: apt-get install etcd-client)")
    with lab() as made:
        authority = Authority(made.layout.pki)
        for name in ("store", "store-client"):
            authority.issue(name)
        stranger = Authority(made.root / "other")
        stranger.issue("stranger")
        made.start("store")
        until("the address is written", (made.root / "run" / "store.addr").exists)
        yield Ctl(binary, made)


def test_put_get_del(ctl: Ctl) -> None:
    assert ctl.run("put", "/a/1", "one").strip() == "OK"
    ctl.run("put", "/a/2", "two")
    assert ctl.run("get", "/a/", "--prefix").split() == ["/a/1", "one", "/a/2", "two"]
    assert ctl.run("get", "/a/", "--prefix", "--keys-only", "--write-out=fields").count('"Count" : 2') == 1
    assert ctl.run("del", "/a/1", "--prev-kv").split() == ["1", "/a/1", "one"]


def test_txn(ctl: Ctl) -> None:
    ctl.run("put", "/t", "before")
    script = 'value("/t") = "before"\n\nput /t after\n\nput /t never\n\n'
    assert ctl.run("txn", text=script).split() == ["SUCCESS", "OK"]
    assert ctl.run("get", "/t", "--print-value-only").strip() == "after"


def test_watch(ctl: Ctl) -> None:
    ctl.run("put", "/w", "1")
    ctl.run("put", "/w", "2")
    environment = {**os.environ, "ETCDCTL_API": "3"}
    command = ctl.command("watch", "/w", "--rev=1", "--prev-kv")
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert watching.stdout is not None
    try:
        lines = [watching.stdout.readline().strip() for _ in range(8)]
    finally:
        watching.kill()
        watching.wait(10)
        watching.stdout.close()
    assert lines == ["PUT", "/w", "1", "PUT", "/w", "1", "/w", "2"]


def test_lease(ctl: Ctl) -> None:
    lease = ctl.run("lease", "grant", "500").split()[1]
    ctl.run("put", f"--lease={lease}", "/l", "x")
    assert "attached keys([/l])" in ctl.run("lease", "timetolive", lease, "--keys")
    assert "keepalived" in ctl.run("lease", "keep-alive", "--once", lease)
    assert "revoked" in ctl.run("lease", "revoke", lease)
    assert ctl.run("get", "/l") == ""


def test_maintenance(ctl: Ctl) -> None:
    ctl.run("endpoint", "health")
    assert ctl.endpoint in ctl.run("endpoint", "status")
    assert "nodeplane" in ctl.run("member", "list")
    ctl.run("compact", ctl.run("endpoint", "status", "--write-out=fields").split('"Revision" : ')[1].split()[0])


def test_no_certificate_no_service(ctl: Ctl) -> None:
    pki = ctl._lab.root / "other"
    strange = [f"--cert={pki}/stranger.crt", f"--key={pki}/stranger.key"]
    command = [part for part in ctl.command("get", "/a") if not part.startswith(("--cert", "--key", "--command"))]
    for identity in (strange, []):
        environment = {**os.environ, "ETCDCTL_API": "3"}
        done = subprocess.run(
            [*command, "--command-timeout=1s", *identity], capture_output=True, env=environment, timeout=20, check=False
        )
        assert done.returncode != 0
