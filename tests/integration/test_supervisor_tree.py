"""A real supervisor over tiny real actors: kill, hang, crash, crowd, end."""

import os
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from protocols.messages.supervisor import ActorStatus, PlaneStatus
from protocols.process.layout import layout
from protocols.process.settings import load_settings
from supervisor.base.errors import SupervisorError
from supervisor.cli.main import main as nodeplane
from supervisor.client.connection import Asking, ask
from tests.support import waiting
from tests.support.actor_process import ActorProcess
from tests.support.commands import start_command

WAITS_FOR = ("no kubelet at /nowhere", "kubelet at /nowhere does not answer")
T = TypeVar("T")


def until(holds: Callable[[], T | None], what: str, timeout: float = 60.0) -> T:
    return waiting.until(what, holds, timeout, 0.1)  # each question takes milliseconds of what the plane needs


class Started:
    """The process of a supervisor, with the interface of subprocess.Popen."""

    def __init__(self, process: ActorProcess, out: Path, err: Path) -> None:
        self.pid, self.poll, self.wait = process.pid, process.poll, process.wait
        self.kill, self.send_signal = process.kill, process.send_signal
        self._out, self._err = out, err

    def communicate(self, timeout: float) -> tuple[str, str]:
        self.wait(timeout)
        return self._out.read_text(), self._err.read_text()

    @property
    def returncode(self) -> int | None:
        return self.poll()


class FakePlane:
    """One root and the supervisors started in it; the end proves that nothing is left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[Started] = []

    def up(self, *words: str, **environment: str) -> Started:
        out, err = (self.root / f"{name}-{len(self.started)}" for name in ("out", "err"))
        around = {**os.environ, "NODEPLANE_NODE_NAME": "n1", **environment}
        process = start_command((str(self.root), *words), around, out, err, "tests.integration.fake_actors.plane")
        self.started.append(Started(process, out, err))
        return self.started[-1]

    def start(self, *words: str) -> Started:
        process = self.up(*words)
        until(lambda: self.all_in("ready", "live"), "every actor ready")
        return process

    def status(self) -> PlaneStatus | None:
        with suppress(SupervisorError, OSError):
            return ask(layout(str(self.root)), Asking.status)
        return None

    def actor(self, name: str) -> ActorStatus:
        plane = until(self.status, "a status")
        return next(actor for actor in plane.actors if actor.instance == name)

    def all_in(self, *states: str) -> bool:
        plane = self.status()
        return plane is not None and all(actor.state in states for actor in plane.actors)

    def replaced(self, name: str, old: int) -> ActorStatus:
        def holds() -> ActorStatus | None:
            now = self.actor(name)
            return now if now.pid not in (0, old) and now.state in ("ready", "live") else None

        return until(holds, f"{name} in a new process")

    def processes(self) -> list[int]:
        """Whatever runs because of this root: the forkserver and its children work in it."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                if os.readlink(entry / "cwd") == str(self.root) and not dead:
                    found.append(int(entry.name))
        return found

    def is_over(self) -> None:
        """What the supervisor leaves when it ends goes by itself, a moment later at most."""
        until(lambda: not self.processes(), "no process left")

    def finish(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=60)
        if self.status():
            nodeplane(["--root", str(self.root), "down"])
        self.is_over()


@pytest.fixture
def plane() -> Iterator[FakePlane]:
    """A root for supervisors of fake actors; in the end nothing is left."""
    root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    made = FakePlane(root)
    try:
        yield made
    finally:
        made.finish()
        shutil.rmtree(root)


def end(process: Started, number: int = signal.SIGTERM) -> tuple[int, str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.wait(), out, err


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def sockets(root: Path) -> list[str]:
    return [path.name for path in (root / "run").iterdir() if path.suffix in (".rpc", ".pub")]


def test_up_stopped_ends_in_reverse_order(plane: FakePlane) -> None:
    process = plane.start("a", "b", "c-0", "c-1")
    (plane.root / "order").touch()
    code, out, _ = end(process)
    assert code == 0
    assert out.count("ready in") == 1
    assert "kubeconfig" in out
    order = (plane.root / "order").read_text().split()
    assert set(order[:2]) == {"c-0", "c-1"}
    assert order[2:] == ["b", "a"]
    assert sockets(plane.root) == []
    assert "WARNING a: look at me" in (plane.root / "logs" / "a.log").read_text()
    plane.is_over()


def test_orders_impossible_are_refused(plane: FakePlane, capsys: pytest.CaptureFixture[str]) -> None:
    plane.start("a")
    old = plane.actor("a").pid
    root = ["--root", str(plane.root)]
    assert nodeplane([*root, "restart", "a"]) == 0
    assert plane.replaced("a", old).last_reason == "restart ordered"
    for words, says in (
        (["restart", "zz"], "no actor is called 'zz'; there are: a"),
        (["scale", "watcher", "2"], "runs no watcher group"),
        (["chaos", "kill", "a", "--signal", "WHAT"], "is no signal"),
    ):
        capsys.readouterr()
        assert nodeplane([*root, *words]) == 2
        assert says in capsys.readouterr().err


def test_actor_hung_is_killed_with_stack_dump(plane: FakePlane) -> None:
    plane.start("a:stoppable", "b")
    old, stopped = plane.actor("a").pid, plane.actor("b").pid
    os.kill(old, signal.SIGUSR1)
    os.kill(stopped, signal.SIGSTOP)
    for name, pid in (("a", old), ("b", stopped)):
        assert plane.replaced(name, pid).last_reason == "hung: no beat for 2.5 s"
    assert "Fatal Python error: Aborted" in (plane.root / "logs" / "a.log").read_text()


def test_actor_busy_lives_until_limit(plane: FakePlane) -> None:
    process = plane.start("a:busy", "b:busy")
    a, b = plane.actor("a").pid, plane.actor("b").pid
    os.kill(a, signal.SIGUSR1)
    os.kill(b, signal.SIGUSR2)
    replaced = plane.replaced("b", b)
    assert "though it works" in replaced.last_reason
    assert "Fatal Python error: Aborted" in (plane.root / "logs" / "b.log").read_text()
    until(lambda: "worked" in (plane.root / "logs" / "a.log").read_text(), "the end of its work")
    assert plane.actor("a").pid == a
    assert plane.actor("a").restarts == 0
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert "its loop is held by user='mallory' verb=list" in err


def test_supervisor_stopped_blames_nobody(plane: FakePlane) -> None:
    process = plane.start("a", "b")
    pids = {plane.actor(name).pid for name in ("a", "b")}
    process.send_signal(signal.SIGSTOP)
    time.sleep(3.2)
    process.send_signal(signal.SIGCONT)
    until(lambda: plane.all_in("live"), "live again")
    time.sleep(0.3)
    assert {plane.actor(name).pid for name in ("a", "b")} == pids


def test_actor_cannot_start_fails_alone(plane: FakePlane) -> None:
    plane.up("a", "bad:crashing", "worse:unloadable")
    until(lambda: plane.status() and plane.actor("bad").state == plane.actor("worse").state == "failed", "both failed")
    assert plane.actor("bad").last_reason.endswith("exit 3: the disk ate my homework")
    assert plane.actor("worse").last_reason.endswith("RuntimeError: no such luck")
    until(lambda: plane.actor("a").state in ("ready", "live"), "the good one runs")
    assert plane.actor("a").restarts == 0


def test_actor_critical_fails_ends_plane(plane: FakePlane) -> None:
    process = plane.up("a", "bad:crashing!")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "nodeplane: bad cannot be kept running: died 3 times before it was ready" in err
    plane.is_over()


def test_supervisor_killed_leaves_nothing(plane: FakePlane) -> None:
    process = plane.start("a", "b")
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not plane.processes(), "no orphan")
    assert sockets(plane.root)
    (plane.root / "run" / "gone.rpc").touch()
    end(plane.start("a"))
    assert sockets(plane.root) == []


def test_supervisor_second_is_refused_by_pid(plane: FakePlane) -> None:
    first = plane.start("a")
    second = plane.up("a")
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert f"supervisor (pid {first.pid})" in err
    assert plane.actor("a").restarts == 0


def test_forkserver_holds_no_lock_and_no_port(plane: FakePlane) -> None:
    """They would be taken until its last child has ended."""
    plane.start("a")
    process = Path(f"/proc/{parent(plane.actor('a').pid)}")
    opened = [os.readlink(path) for path in (process / "fd").iterdir()]
    assert (process / "comm").read_text() == "np-forkserver\n"
    assert {path for path in opened if path.startswith("/")} == {"/dev/null", str(plane.root / "logs/forkserver.log")}
    assert sorted(path.partition(":")[0] for path in opened if ":[" in path) == ["pipe", "pipe", "socket"]


def test_forkserver_killed_costs_one_restart(plane: FakePlane) -> None:
    plane.start("a", "b")
    old = plane.actor("a").pid
    os.kill(parent(old), signal.SIGKILL)
    assert plane.replaced("a", old).last_reason == "the forkserver died"
    until(lambda: plane.all_in("ready", "live"), "all back")
    until(lambda: len(plane.processes()) == 3, "one forkserver and two actors")


def test_forkserver_stopped_is_continued(plane: FakePlane) -> None:
    plane.start("a", "b")
    old, other = plane.actor("a").pid, plane.actor("b").pid
    forkserver = parent(old)
    os.kill(forkserver, signal.SIGSTOP)
    os.kill(old, signal.SIGKILL)
    new = plane.replaced("a", old)
    assert (new.restarts, plane.actor("b").pid, parent(new.pid)) == (1, other, forkserver)
    assert new.last_reason == "killed by SIGKILL"


def test_run_directory_removed_ends_plane(plane: FakePlane) -> None:
    process = plane.start("a", "b")
    shutil.rmtree(plane.root / "run")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"{plane.root}/run was removed or emptied under the running plane; start it again" in err
    plane.is_over()
    plane.start("a", "b")


def test_socket_removed_restarts_actor(plane: FakePlane) -> None:
    plane.start("a", "b")
    old, other = plane.actor("a").pid, plane.actor("b").pid
    (plane.root / "run" / "a.rpc").unlink()
    assert plane.replaced("a", old).last_reason == "its socket was removed"
    assert (plane.root / "run" / "a.rpc").exists()
    assert plane.actor("b").pid == other


def test_interrupt_second_ends_at_once(plane: FakePlane) -> None:
    process = plane.start("a:stoppable")
    os.kill(plane.actor("a").pid, signal.SIGUSR1)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    begin = time.monotonic()
    end(process, signal.SIGINT)
    assert time.monotonic() - begin < 30
    plane.is_over()
    assert sockets(plane.root) == []


def test_up_detached_returns_and_down_ends(plane: FakePlane) -> None:
    process = plane.up("--detach", "a", "b")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "ready in" in out
    assert plane.all_in("ready", "live")
    assert nodeplane(["--root", str(plane.root), "down"]) == 0
    assert sockets(plane.root) == []
    plane.is_over()


def test_down_ends_what_a_signal_has_stopped(plane: FakePlane) -> None:
    process = plane.start("a", "b")
    os.kill(plane.actor("a").pid, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(SupervisorError, match=rf"is stopped by a signal; `kill -CONT {process.pid}`"):
        ask(layout(str(plane.root)), lambda asking: asking.status(timeout=0.2))
    begin = time.monotonic()
    assert nodeplane(["--root", str(plane.root), "down"]) == 0
    assert time.monotonic() - begin < 6, "less than the grace period of an actor"
    plane.is_over()


def test_up_detached_interrupted_ends_the_plane(plane: FakePlane) -> None:
    process = plane.up("--detach", "a", "late:waiting")
    until(plane.status, "a status")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    plane.is_over()


def test_up_detached_fails_names_reason(plane: FakePlane) -> None:
    process = plane.up("--detach", "a", "bad:crashing!")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "bad" in err
    assert "the disk ate my homework" in err


def test_up_detached_gives_up_and_reports_changes_only(plane: FakePlane) -> None:
    begin = time.monotonic()
    process = plane.up("--detach", "--ready=6", "a", "late:waiting")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert time.monotonic() - begin > 5.5
    lines = [line for line in err.splitlines() if "/nowhere" in line]
    assert lines[:-1] == [f"nodeplane: still waiting; late: {note}" for note in WAITS_FOR]
    assert "no progress in 6 s (--timeout); still waiting; late: kubelet at /nowhere does not answer" in lines[-1]
    plane.is_over()


@pytest.mark.parametrize(
    ("number", "order"),
    [
        (signal.SIGINT, ["a", "containers", "runtime", "first"]),
        (signal.SIGHUP, ["a", "containers", "runtime", "first"]),
        (signal.SIGTERM, ["a", "runtime", "first"]),
    ],
)
def test_signals_interrupt_and_hangup_stop_containers(plane: FakePlane, number: int, order: list[str]) -> None:
    process = plane.start("first", "runtime:runtime", "a")
    code, _, _ = end(process, number)
    assert code == 0
    assert (plane.root / "order").read_text().split() == order


def test_hangup_under_nohup_is_ignored(plane: FakePlane) -> None:
    process = plane.start("--nohup", "a")
    process.send_signal(signal.SIGHUP)
    os.kill(plane.actor("a").pid, signal.SIGKILL)  # a supervisor that ends would not start it again
    until(lambda: plane.all_in("ready", "live"), "the actor in a new process")
    assert end(process)[0] == 0


def test_groups_of_one_root_are_one_plane(plane: FakePlane) -> None:
    control, node = plane.up("--group=control", "a"), plane.up("--group=node", "b")
    until(lambda: (status := plane.status()) and len(status.actors) == 2, "two groups")
    until(lambda: plane.all_in("ready", "live"), "both ready")
    twice = plane.up("--group=node", "b")
    _, err = twice.communicate(timeout=60)
    assert f"supervisor-node (pid {node.pid})" in err
    stranger = plane.up("--group=watcher", "apiserver-0", NODEPLANE_NODE_NAME="n2")
    _, err = stranger.communicate(timeout=60)
    assert "node_name is 'n2' here but 'n1' in the groups that run already" in err
    gates = {"NODEPLANE_FEATURE_GATES": "DRADeviceTaints=false"}
    skewed = plane.up("--group=watcher", "apiserver-0", **gates)
    _, err = skewed.communicate(timeout=60)
    assert "give all the same, or --feature-gate-skew true if they differ on purpose" in err
    watcher = plane.up("--group=watcher", "apiserver-0", **gates, NODEPLANE_FEATURE_GATE_SKEW="true")
    until(lambda: (status := plane.status()) and len(status.actors) == 3, "three groups")
    run = plane.root / "run"
    assert load_settings(run / "settings-supervisor-watcher.json").feature_gates == {"DRADeviceTaints": False}
    assert load_settings(run / "settings.json").feature_gates == {}
    old = plane.actor("b").pid
    assert nodeplane(["--root", str(plane.root), "chaos", "kill", "b"]) == 0
    plane.replaced("b", old)
    assert nodeplane(["--root", str(plane.root), "down"]) == 0
    assert (control.wait(60), node.wait(60), watcher.wait(60)) == (0, 0, 0)
    assert sockets(plane.root) == []


def test_metrics_page_has_all_processes(plane: FakePlane) -> None:
    plane.start("a", "b")
    url = until(plane.status, "status").endpoints["metrics"]

    def whole() -> str:
        with urllib.request.urlopen(url, timeout=30) as answer:
            page = str(answer.read().decode())
        wanted = 'nodeplane_actor_up{actor="a"} 1', *(f'process_open_fds{{actor="{name}"}}' for name in ("a", "b"))
        return page if all(part in page for part in wanted) else ""

    page = until(whole, "a page that tells of both")
    assert page.count("# TYPE process_open_fds gauge") == 1
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.replace("metrics", "x"), timeout=30)
    caught.value.close()
    assert caught.value.code == 404


def test_supervisor_garbage_disturbs_nobody(plane: FakePlane) -> None:
    import zmq

    plane.start("a")
    with zmq.Context() as context, context.socket(zmq.DEALER) as sock:
        sock.linger = 0
        sock.connect(f"ipc://{plane.root}/run/supervisor.rpc")
        for frames in ([b""], [b"\xff" * 50], [b"a", b"b", b"c"], [b"\x81"]):
            sock.send_multipart(frames)
        time.sleep(0.1)
    until(lambda: plane.actor("a").state in ("ready", "live"), "it runs on")
    assert plane.actor("a").restarts == 0


def test_groups_starting_together_agree(plane: FakePlane) -> None:
    """What an earlier plane was started with binds nobody."""
    end(plane.start("a"))
    names = {"NODEPLANE_NODE_NAME": "n2"}
    lines = [plane.up(f"--group={group}", name, **names) for group, name in (("control", "a"), ("node", "b"))]
    until(lambda: (status := plane.status()) and len(status.actors) == 2 and plane.all_in("ready", "live"), "both")
    assert all(line.poll() is None for line in lines)
