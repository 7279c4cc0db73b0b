"""`nodeplane check`: the judgement of made-up machines, and the facts of this one."""

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from protocols.wire import cri_pb2 as pb
from supervisor.cli.main import main
from supervisor.machine.check import FAILS, LIMITED, OK, fails, findings, summary
from supervisor.machine.facts import Cgroups, MachineFacts, cgroups, machine, runtimes

GOOD = MachineFacts(
    system="Linux",
    kernel="6.1.0-9-amd64",
    python="3.11.2",
    sqlite="3.40.1",
    uid=0,
    sys_admin=True,
    namespaces=("mnt", "uts", "pid"),
    unshare_error="",
    cgroups=Cgroups(("v2",), ("cpu", "memory", "pids", "cpuset")),
    shm=64 << 20,
    descriptors=(1024, 1 << 20),
    inotify=(128, 8192),
    clock_resolution=1e-9,
    clocksource="tsc",
    wall_time=1.8e9,
    memory=4 << 30,
    root="/var/lib/nodeplane",
    root_error="",
    disk=10 << 30,
    runs=False,
    loopback_error="",
    ports_in_use=(),
    runtimes={},
    programs={"kubectl": "/usr/bin/kubectl"},
)


def test_check_good_machine_finds_nothing_limited() -> None:
    found = findings(GOOD)
    assert {each.state for each in found} == {OK}
    assert not any(each.effect for each in found)
    assert summary(found) == ["everything works here"]


@pytest.mark.parametrize(
    ("changes", "name", "state", "says"),
    [
        ({"system": "Darwin", "kernel": "23.1.0"}, "kernel", FAILS, "Linux 5.3"),
        ({"kernel": "4.19.0"}, "kernel", FAILS, "Linux 5.3"),
        ({"kernel": "5.10.0-21"}, "kernel", LIMITED, "recursiveReadOnly"),
        ({"uid": 1000}, "user", LIMITED, "run as root"),
        ({"sys_admin": False}, "namespaces", LIMITED, "allow CAP_SYS_ADMIN"),
        ({"unshare_error": "Operation not permitted"}, "namespaces", LIMITED, "not isolated"),
        ({"namespaces": ("mnt", "uts")}, "namespaces", LIMITED, "not isolated"),
        ({"cgroups": Cgroups()}, "cgroups", LIMITED, "cpu, memory, pids, cpuset are not enforced"),
        ({"cgroups": Cgroups(("v1",), ("cpu", "memory", "pids"))}, "cgroups", LIMITED, "limits of cpuset"),
        ({"shm": -1}, "/dev/shm", LIMITED, "mount a tmpfs"),
        ({"descriptors": (64, 128)}, "open files", FAILS, "256 or more"),
        ({"descriptors": (1024, 4096)}, "open files", LIMITED, "about 4096"),
        ({"inotify": (8, 8192)}, "inotify", LIMITED, "max_user_instances"),
        ({"wall_time": 0.0}, "clocks", FAILS, "set the clock"),
        ({"clock_resolution": 0.01}, "clocks", LIMITED, "coarse"),
        ({"memory": 100 << 20}, "memory", FAILS, "300 MiB"),
        ({"memory": 400 << 20}, "memory", LIMITED, "300 MiB"),
        ({"root_error": "/x belongs to u"}, "root", FAILS, "/x belongs to u"),
        ({"disk": 1 << 20}, "root", FAILS, "free some space"),
        ({"loopback_error": "Cannot assign"}, "ports", FAILS, "interface lo"),
        ({"ports_in_use": ("--port",)}, "ports", LIMITED, "give --port 0"),
        ({"programs": {}}, "programs", LIMITED, "no kubectl"),
    ],
)
def test_check_bad_fact_is_named_with_its_effect(changes: dict[str, Any], name: str, state: str, says: str) -> None:
    found = findings(msgspec.structs.replace(GOOD, **changes))
    bad = [each for each in found if each.name == name]
    assert [each.state for each in bad] == [state]
    assert says in bad[0].effect
    assert fails(found) == (state == FAILS)
    assert f"  {name}: " in summary(found)[0]


def test_unlimited_descriptors_are_enough() -> None:
    [found] = [e for e in findings(msgspec.structs.replace(GOOD, descriptors=(-1, -1))) if e.name == "open files"]
    assert (found.state, found.found) == (OK, "unlimited, at most unlimited")


def test_cgroups_v2_without_write_access_lists_no_controllers(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    mounts = f"cgroup2 {tmp_path} cgroup2 rw 0 0\n"
    assert cgroups(mounts, "0::/\n") == Cgroups(("v2",), ("cpu", "memory", "pids"))
    assert cgroups("tmpfs /x tmpfs rw 0 0\n", "") == Cgroups()


@contextlib.contextmanager
def runtime(path: Path, *handlers: grpc.GenericRpcHandler) -> Iterator[None]:
    """Serve gRPC on a socket; without handlers as somebody who is no runtime."""
    server = grpc.server(ThreadPoolExecutor(1), handlers=list(handlers))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def test_runtimes_have_their_version_or_the_reason_why_they_do_not_answer(tmp_path: Path) -> None:
    here, dead, other = tmp_path / "here.sock", tmp_path / "dead.sock", tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    answer = pb.VersionResponse(runtime_name="containerd", runtime_version="1.7.1", runtime_api_version="v1")
    method = grpc.unary_unary_rpc_method_handler(
        lambda request, context: answer, pb.VersionRequest.FromString, pb.VersionResponse.SerializeToString
    )
    service = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", {"Version": method})
    with runtime(here, service), runtime(other):
        found = runtimes(
            {name: (f"{tmp_path}/no.sock", f"{tmp_path}/{name}.sock") for name in ("here", "dead", "other", "x")}
        )
    assert found == {
        "here": f"{here} (containerd 1.7.1, CRI v1)",
        "dead": f"{dead} (Connection refused)",
        "other": f"{other} (no CRI v1: UNIMPLEMENTED)",
    }


def test_facts_of_this_machine_can_be_read_and_a_bad_root_is_named() -> None:
    here = machine("/tmp/" + "x" * 120)
    assert here.system == "Linux"
    assert here.memory > 0
    assert "too long for unix sockets" in here.root_error


def test_check_command_prints_json_and_fails_for_a_root_that_cannot_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-o", "json", "--root", "/tmp/" + "x" * 120]) == 1
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["root"]["state"] == FAILS
    assert main(["check"]) in (0, 1)
    assert "STATE" in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_masked_proc_leaves_containers_without_isolation() -> None:
    """As in a container of Docker: the user may do all in namespaces, but no proc may show what a mask hides."""
    code = "from protocols.process import namespaces as n; print(n.has_sys_admin(), n.try_namespaces())"
    probe = shlex.join([sys.executable, "-c", code])
    inner = f"unshare --user --map-root-user --mount --pid --fork {probe}"
    words = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none /proc/sys && {inner}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, timeout=30)
    if any(cause in done.stderr for cause in ("unshare failed", "mount:", "filesystem propagation")):  # a chroot
        pytest.skip(f"needs root and user namespaces: {done.stderr.strip()}")
    assert done.stdout == "True Operation not permitted\n", done.stderr
