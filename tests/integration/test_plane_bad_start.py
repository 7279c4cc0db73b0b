"""Roots, flags, ports and files a plane cannot start with: one line that says what is wrong and the mend."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.insults import refused
from tests.support.plane import REPO, Plane, run, until_nothing
from tests.support.shared_fixtures import plane_that_settles
from tests.support.witnesses import Witnesses, lives

FREE_PORTS = ("--port", "0", "--metrics-port", "0")

plane = plane_that_settles


@pytest.fixture
def idle() -> Iterator[Plane]:
    """A root where nothing runs."""
    plane = Plane()
    try:
        yield plane
    finally:
        plane.__exit__(None, None, None)


WRONG_WORDS = {
    "no command": ((), "a command is needed"),
    "unknown command": (("upp",), "no command is called 'upp'"),
    "unknown flag": (("up", "--prot", "1"), "--prot"),
    "no number": (("up", "--port", "many"), "many"),
    "no port": (("up", "--port", "70000"), "--port 70000 is no port"),
    "no node name": (("up", *FREE_PORTS, "--node-name", "A_B"), "'A_B' is no DNS name"),
    "no truth": (("up", *FREE_PORTS, "--feature-gates", "EventedPLEG=maybe"), "true or false"),
    "no store": (("up", *FREE_PORTS, "--store", "etcd://nowhere"), "no HOST:PORT"),
    "no watchers": (("up", *FREE_PORTS, "--watchers", "0"), "0 watchers cannot run"),
    "no actor": (("chaos", "kill"), "chaos kill"),
}
WRONG_ENVIRONMENT = {
    "NODEPLANE_PORT": ("many", "NODEPLANE_PORT='many' is no number"),
    "NODEPLANE_WATCHERS": ("65", "65 watchers cannot run"),
    "NODEPLANE_NODE_NAME": ("-", "'-' is no DNS name"),
}


@pytest.mark.parametrize("case", WRONG_WORDS)
def test_malformed_flags(idle: Plane, case: str) -> None:
    words, says = WRONG_WORDS[case]
    code, line = refused(*words, environment=idle.environment)
    assert (code, says in line) == (2, True), line
    assert not (idle.root / "run").exists(), "something was touched before every flag was checked"


@pytest.mark.parametrize("variable", WRONG_ENVIRONMENT)
def test_malformed_environment(idle: Plane, variable: str) -> None:
    value, says = WRONG_ENVIRONMENT[variable]
    code, line = refused("up", "--detach", environment={**idle.environment, variable: value})
    assert (code, says in line) == (2, True), line


def test_a_root_too_long_for_sockets() -> None:
    root = "/tmp/" + "long" * 25
    code, line = refused("up", "--detach", *FREE_PORTS, "--root", root)
    assert code == 2
    assert "bytes too many; use a shorter --root" in line
    assert not Path(root).exists()


def test_orders_without_a_plane(idle: Plane) -> None:
    for words in (("status",), ("chaos", "kill", "store"), ("scale", "watcher", "2"), ("restart", "cri")):
        code, line = refused(*words, environment=idle.environment)
        assert code == 1
        assert str(idle.root) in line
    idle.nodeplane("down")  # nothing to stop is no failure


def test_a_port_in_use(idle: Plane) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        code, line = refused("up", "--detach", "--port", str(port), "--metrics-port", "0", environment=idle.environment)
    assert code == 1
    assert f"port {port} on 127.0.0.1 cannot be used" in line
    assert "--port" in line
    assert not until_nothing(idle.processes)


def test_a_root_that_cannot_be_written(idle: Plane) -> None:
    with read_only(idle.root):
        code, line = refused("up", "--detach", *FREE_PORTS, environment=idle.environment)
        assert not until_nothing(idle.processes)
    assert code == 1
    assert f"cannot write below {idle.root}" in line


def test_certificates_that_cannot_be_made(idle: Plane) -> None:
    (idle.root / "pki" / ".lock").mkdir(parents=True)
    code, line = refused("up", "--detach", *FREE_PORTS, environment=idle.environment)
    assert (code, "cannot make certificates: " in line, ".lock: Is a directory" in line) == (1, True, True), line


@pytest.mark.parametrize("name", ["pki", "run", "."])
def test_a_root_that_others_write_starts_no_plane(idle: Plane, name: str) -> None:
    """Somebody may have put a CA there that he has the key of."""
    (idle.root / name).mkdir(exist_ok=True)
    (idle.root / name).chmod(0o777)
    code, line = refused("up", "--detach", *FREE_PORTS, environment=idle.environment)
    assert code == 1
    assert f"{idle.root / name} can be written by others (mode 0777)" in line
    assert "chmod go-w" in line
    assert not (idle.root / "kubeconfig").exists()
    assert not until_nothing(idle.processes)


def test_a_second_plane_on_the_root_names_the_first(plane: Plane) -> None:
    pid, before = json.loads(plane.nodeplane("status", "-o", "json"))["pid"], lives(plane)
    with Witnesses(plane):
        for words in (("up", "--detach", *FREE_PORTS), ("up", *FREE_PORTS)):
            code, line = refused(*words, environment=plane.environment)
            assert code == 1
            assert f"is already run by supervisor (pid {pid})" in line
        group = run_group(plane)
        assert group.returncode == 1
        assert f"pid {pid}" in group.stderr
    assert lives(plane) == before


def test_a_second_actor_of_a_name_is_refused(plane: Plane) -> None:
    before = lives(plane)
    with Witnesses(plane):
        for actor in ("devices", "store"):
            done = run_actor(plane.root / "run" / "settings.json", actor)
            assert done.returncode == 1
            assert len(done.stderr.splitlines()) == 1, done.stderr
            assert str(before[actor][0]) in done.stderr
    assert lives(plane) == before


def test_unknown_actors_and_devices_are_reported(plane: Plane) -> None:
    for words, says in (
        (("chaos", "kill", "nobody"), "no actor is called 'nobody'"),
        (("restart", "nobody"), "no actor is called 'nobody'"),
        (("chaos", "device", "example.com/none", "x", "unhealthy"), "example.com/none"),
        (("logs", "nobody"), "nobody"),
    ):
        _, line = refused(*words, environment=plane.environment)
        assert says in line
    code, line = refused("scale", "watcher", "1000", environment=plane.environment)
    assert (code, "1000 watchers cannot run" in line) == (2, True)


def test_settings_with_an_unknown_key(idle: Plane) -> None:
    """An actor refuses them; the supervisor, whose file it is, writes them anew (see the next test)."""
    settings = idle.root / "run" / "settings.json"
    settings.parent.mkdir(mode=0o700)
    settings.write_text('{"root": "/", "colour": "blue"}')
    done = run_actor(settings, "pleg")
    assert done.returncode == 2
    assert "are not valid" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_garbage_in_the_place_of_every_file_and_a_metrics_port_in_use(idle: Plane) -> None:
    """Stale sockets, pid files that name a stranger, locks and settings full of nonsense: all of it is only files. The
    port is reported, and the plane runs."""
    run_dir = idle.root / "run"
    run_dir.mkdir(mode=0o700)
    for name in ("store.rpc", "store.pub", "store.sock", "cri.lock", "settings.json", "store.addr", "health.pub"):
        (run_dir / name).write_bytes(os.urandom(100))
    (run_dir / "supervisor.pid").write_text(f"{os.getpid()}\n")
    for place in ("runtime/runtime.sock", "kubelet/device-plugins/kubelet.sock", "kubelet/pod-resources/kubelet.sock"):
        path = idle.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        idle.flags = ["--metrics-port", str(port)]
        assert f"port {port} is in use by another process" in idle.up()
        assert time.monotonic() - began < 45, "something waited for one of them"
        assert json.loads((run_dir / "settings.json").read_text())["root"] == str(idle.root)
        with Witnesses(idle):
            pass


def run_actor(settings: Path, actor: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", f"actors.{actor}.actor", "--settings", str(settings), "--instance", actor]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=90, check=False)


def run_group(plane: Plane) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "supervisor", "control"]
    return subprocess.run(
        command, cwd=REPO, env=plane.environment, capture_output=True, text=True, timeout=90, check=False
    )


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    """As root by a mount, since root heeds no permissions; else by those. Skips where neither can be."""
    if os.geteuid():
        path.chmod(0o500)
        yield
        path.chmod(0o700)
        return
    try:
        run(["mount", "-t", "tmpfs", "-o", "ro,size=1m,mode=0700", "none", str(path)], dict(os.environ), 60, True)
    except (AssertionError, OSError) as error:
        pytest.skip(f"cannot mount here: {error}")
    try:
        yield
    finally:
        run(["umount", str(path)], dict(os.environ), 60, True)
