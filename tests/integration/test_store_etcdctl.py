"""Debian's etcdctl, over loopback with mutual TLS, against our store."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from protocols.wire import etcd_pb2 as pb
from tests.integration.etcd_fixture import etcd_binary
from tests.support.authority import Authority
from tests.support.store_lab import Api, Lab, etcd_process, lab, play, short_directory, until


class Ctl:
    def __init__(self, binary: str, lab: Lab) -> None:
        self._binary, self._lab = binary, lab
        self.endpoint = (lab.root / "run" / "store.addr").read_text().strip()

    def command(self, *arguments: str, user: str = "apiserver-etcd-client") -> list[str]:
        pki = self._lab.layout.pki
        tls = [f"--cacert={pki}/etcd/ca.crt", f"--cert={pki}/{user}.crt", f"--key={pki}/{user}.key"]
        limits = ["--command-timeout=30s", "--dial-timeout=20s"]
        return [self._binary, f"--endpoints=https://{self.endpoint}", *tls, *limits, *arguments]

    @property
    def target(self) -> str:
        return self._lab.target

    def run(self, *arguments: str, text: str = "", fails: bool = False) -> str:
        """What it prints; with `fails` what it complains of."""
        environment = {**os.environ, "ETCDCTL_API": "3"}
        command = self.command(*arguments)
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, timeout=90)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr.splitlines()[-1] if fails else done.stdout


@pytest.fixture(scope="module")
def ctl() -> Iterator[Ctl]:
    """etcdctl with a store that serves TLS."""
    binary = shutil.which("etcdctl")
    if binary is None:
        pytest.skip("etcdctl is not installed (Debian: apt-get install etcd-client)")
    with lab() as made:
        made.layout.pki.mkdir(mode=0o700)
        authority = Authority(made.layout.pki / "etcd")
        for name in ("server", "../apiserver-etcd-client"):
            authority.issue(name)
        stranger = Authority(made.root / "other")
        stranger.issue("stranger")
        made.start("store")
        until("the address is written", (made.root / "run" / "store.addr").exists)
        yield Ctl(binary, made)


def test_etcdctl_put_get_del_work(ctl: Ctl) -> None:
    assert ctl.run("put", "/a/1", "one").strip() == "OK"
    ctl.run("put", "/a/2", "two")
    assert ctl.run("get", "/a/", "--prefix").split() == ["/a/1", "one", "/a/2", "two"]
    assert ctl.run("get", "/a/", "--prefix", "--keys-only", "--write-out=fields").count('"Count" : 2') == 1
    assert ctl.run("del", "/a/1", "--prev-kv").split() == ["1", "/a/1", "one"]


def test_etcdctl_txn_works(ctl: Ctl) -> None:
    ctl.run("put", "/t", "before")
    script = 'value("/t") = "before"\n\nput /t after\n\nput /t never\n\n'
    assert ctl.run("txn", text=script).split() == ["SUCCESS", "OK"]
    assert ctl.run("get", "/t", "--print-value-only").strip() == "after"


def test_etcdctl_watch_works(ctl: Ctl) -> None:
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
        watching.wait(30)
        watching.stdout.close()
    assert lines == ["PUT", "/w", "1", "PUT", "/w", "1", "/w", "2"]


def test_etcdctl_lease_works(ctl: Ctl) -> None:
    lease = ctl.run("lease", "grant", "500").split()[1]
    ctl.run("put", f"--lease={lease}", "/l", "x")
    assert "attached keys([/l])" in ctl.run("lease", "timetolive", lease, "--keys")
    assert "keepalived" in ctl.run("lease", "keep-alive", "--once", lease)
    assert "revoked" in ctl.run("lease", "revoke", lease)
    assert ctl.run("get", "/l") == ""


def test_etcdctl_maintenance_works(ctl: Ctl) -> None:
    ctl.run("endpoint", "health")
    assert ctl.endpoint in ctl.run("endpoint", "status")
    assert f"nodeplane, , https://{ctl.endpoint}" in ctl.run("member", "list")
    ctl.run("endpoint", "health", "--cluster")
    assert ctl.endpoint in ctl.run("endpoint", "hashkv")
    assert "Finished" in ctl.run("defrag")
    assert ctl.run("alarm", "list") + ctl.run("alarm", "disarm") == ""
    ctl.run("compact", ctl.run("endpoint", "status", "--write-out=fields").split('"Revision" : ')[1].split()[0])


def test_etcdctl_locks_and_elections_work(ctl: Ctl) -> None:
    """Built by etcdctl from transactions, leases and watches."""
    assert ctl.run("lock", "one", "echo", "held").strip() == "held"
    assert "found" in ctl.run("lease", "list")
    assert ctl.run("move-leader", "1", fails=True).count("nodeplane's store has one member") == 1


def test_etcdctl_snapshot_restores_to_etcd(ctl: Ctl) -> None:
    """Keys, values, revisions, history, deletions and leases: restored by etcdctl, read from the etcd it made."""
    play(ctl.target, _fill)
    with short_directory() as folder:
        copy, data = str(folder / "copy.db"), folder / "data"
        ctl.run("snapshot", "save", copy)
        assert json.loads(ctl.run("snapshot", "status", copy, "--write-out=json"))["totalKey"] > 400
        ctl.run("snapshot", "restore", copy, f"--data-dir={data}")
        with etcd_process(etcd_binary(), data) as etcd:
            asyncio.run(_same_history(ctl.target, etcd))


async def _fill(api: Api) -> None:
    revision = 0
    for number in range(600):
        name, value = b"/snap/%d" % (number % 150), b"v" * (number % 90)
        revision = (await api.put(pb.PutRequest(key=name, value=value))).header.revision
        if number % 20 == 0:
            await api.delete_range(pb.DeleteRangeRequest(key=name))
        if number == 200:
            await api.compact(pb.CompactionRequest(revision=revision))
    both = [pb.RequestOp(request_put=pb.PutRequest(key=b"/snap/%s" % name)) for name in (b"left", b"right")]
    await api.txn(pb.TxnRequest(success=both))
    lease = (await api.grant(pb.LeaseGrantRequest(TTL=600))).ID
    await api.grant(pb.LeaseGrantRequest(TTL=600, ID=-77))  # a client may choose any
    await api.put(pb.PutRequest(key=b"/snap/leased", value=b"x" * 1_000_000, lease=lease))


async def _same_history(ours: str, etcd: str) -> None:
    one, other = Api(ours), Api(etcd)
    newest = (await one.range(pb.RangeRequest(key=b"/"))).header.revision
    for revision in (0, newest, newest - 100, newest - 400):
        request = pb.RangeRequest(key=b"\0", range_end=b"\0", revision=revision)
        found, expected = await other.range(request), await one.range(request)
        assert (found.header.revision, list(found.kvs)) == (expected.header.revision, list(expected.kvs))
    leases = [sorted(lease.ID for lease in (await api.leases(pb.LeaseLeasesRequest())).leases) for api in (one, other)]
    assert leases[0] == leases[1] != []
    assert (await other.put(pb.PutRequest(key=b"/snap/new"))).header.revision == newest + 1
    for api in (one, other):
        await api.close()


def test_etcdctl_without_certificate_is_refused(ctl: Ctl) -> None:
    pki = ctl._lab.root / "other"
    strange = [f"--cert={pki}/stranger.crt", f"--key={pki}/stranger.key"]
    command = [part for part in ctl.command("get", "/a") if not part.startswith(("--cert", "--key", "--command"))]
    for identity in (strange, []):
        environment = {**os.environ, "ETCDCTL_API": "3"}
        done = subprocess.run(
            [*command, "--command-timeout=1s", *identity], capture_output=True, env=environment, timeout=90, check=False
        )
        assert done.returncode != 0
