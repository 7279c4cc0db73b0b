"""The command line before it talks to anybody."""

import argparse
import errno
import importlib
import os
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgpack
import pytest

from protocols.messages.supervisor import ActorStatus, PlaneStatus
from supervisor.__main__ import _slot
from supervisor.base.errors import ForeignPackage, SupervisorError, UsageError, check_packages
from supervisor.base.options import default_root
from supervisor.base.terminal import Table, duration
from supervisor.cli.commands import COMMANDS, parser_of
from supervisor.cli.flags import layout_from
from supervisor.cli.inspect import status, top
from supervisor.cli.inspect.tap import Tap, untyped
from supervisor.cli.inspect.top import cpu_seconds, pss_mib
from supervisor.cli.main import main
from supervisor.cli.operate import orders
from supervisor.cli.operate.chaos import signal_number
from supervisor.client.scaling import watcher_supervisors
from supervisor.plane.start import under_honcho
from supervisor.report.console import Console, summary, wait_until_started
from supervisor.report.status import merge
from tests.support.product import ROOT as REPO


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "a command is needed"),
        (["fly"], 2, "no command is called 'fly'; see nodeplane --help"),
        (["statsu"], 2, "no command is called 'statsu'; did you mean status? see nodeplane --help"),
        (["--roto", "/x", "status"], 2, "no command is called '--roto'; did you mean --root? see nodeplane --help"),
        (["dra-driver", "--driver", "No"], 2, "'No' is not a DNS name, such as gpu.example.com"),
        (["status"], 1, "no plane runs below"),
        (["down"], 0, "no plane runs below"),
        (["tap", "devices", "allocations"], 1, "no plane runs below"),
        (["logs", "nobody"], 2, "no log of 'nobody'"),
        (["logs", "supervisor"], 2, "writes to the terminal, or journal, of its `nodeplane up`"),
        (["up", "--timeout", "0"], 2, "--timeout 0: use more than 0"),
        (["chaos", "device"], 2, "the health is missing: chaos device DEVICE {unhealthy,healthy,unknown,clear}"),
        (["chaos", "device", "a.b/c", "gpu-0"], 2, "'gpu-0' is no health"),
        (["chaos", "device", "healthy"], 2, "the device is missing; name RESOURCE ID"),
        (["chaos", "kill", "store"], 1, "no plane runs"),
        (["chaos", "device", "example.com/gpu", "unhealthy"], 2, "or DRIVER/POOL/DEVICE of a DRA driver"),
        (["chaos", "device", "a.b/c", "d", "e", "healthy"], 2, "are several devices; name one"),
        (["chaos", "device", "a.b/c", "d", "unknown"], 2, "is unknown only when its plugin is gone"),
        (["chaos", "device", "a.b/c/d", "unknown"], 1, "no plane runs"),
        (["chaos", "runtime", "drop-events", "--count", "-1"], 2, "a number of events is at least 0"),
        (["chaos", "runtime", "clock-jump", "--seconds", "nan"], 2, "--seconds nan: use at most 1e+09"),
        (["chaos", "script", "/dev/null"], 2, "null: it has no line to play; kill, stop,"),
        (["logs"], 1, "no plane has written logs to"),
        (["logs", "-f"], 1, "no plane has written logs to"),
        (["watch", "pods", "--socket", "/" + "x" * 107], 2, "has more than 107 bytes; use a shorter path"),
        (["devices", "--patches", "/dev/null"], 2, "name them with --slices"),
        (["scale", "watcher", "0"], 2, "0 watchers cannot run"),
        (["up", "--port", "70000"], 2, "is no port"),
        (["up", "--feature-gates", "X=true"], 2, "no feature gate"),
    ],
)
def test_command_fails_prints_one_line(
    words: list[str], code: int, says: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(root), *words] if words else []) == code
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert list(root.iterdir()) == [], "nothing was touched"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"\x80", {}),
        (msgpack.packb({"a": [1, b'{"b":2}', b"\xff"]}), {"a": [1, {"b": 2}, b"\xff"]}),
        (b'{"b":2}', {"b": 2}),
        (b"{", 123),
        (b"{{", b"{{"),
        (b"", b""),
        (b"\xc1", b"\xc1"),
    ],
)
def test_tap_unknown_body_is_read(body: bytes, value: Any) -> None:
    assert untyped(body) == value


async def test_tap_ends_where_its_lines_cannot_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(write=broken, flush=lambda: None))
    sink = Tap()
    sink.on_synced(True)
    sink.on_mark(1)
    with pytest.raises(BrokenPipeError):
        await sink.failed


def test_command_whose_caller_closed_standard_output_succeeds() -> None:
    command = '"$0" -m supervisor.cli.main schema status >&-'
    done = subprocess.run(["sh", "-c", command, sys.executable], cwd=REPO, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("words", [("status", "--nope"), ("--root", "", "down"), ("down", "--root=")])
def test_flags_wrong_are_usage_errors(root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--root", str(root), *words])
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("image", "import", "F"),
        ("image", "ls"),
        ("chaos", "kill", "store"),
        ("chaos", "script", "F"),
        ("chaos", "device", "a.b/c", "d", "healthy"),
        ("status",),
        ("watch", "pods"),
        ("up",),
        ("plugin",),
        ("bench",),
    ],
    ids=" ".join,
)
def test_root_is_taken_before_and_after_a_command(words: tuple[str, ...]) -> None:
    parser = parser_of([importlib.import_module(COMMANDS[words[0]].path)])
    for place in (0, 1, min(2, len(words)), len(words)):
        given = [*words[:place], "--root", "/r", *words[place:]]
        assert layout_from(parser.parse_args(given)).root == Path("/r"), given


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("up", "--api-port", "0"), "nodeplane up: unrecognized arguments: --api-port 0 (did you mean --port?)"),
        (("fleet", "delete", "x"), "nodeplane fleet delete: unrecognized arguments: x; see nodeplane fleet delete"),
        (("devices", "--plugins", "--drivers"), "nodeplane devices: argument --drivers: not allowed with argument --p"),
        (("chaos",), "nodeplane chaos: the following arguments are required: fault (kill, device, runtime, script)"),
    ],
)
def test_wrong_words_name_the_subcommand(words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(list(words))
    assert capsys.readouterr().err.startswith(text)


def test_root_given_after_the_command_wins(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", "/nowhere", "image", "ls", f"--root={root}"]) == 1
    assert str(root) in capsys.readouterr().err


def test_up_port_taken_starts_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        assert main(["up", "--root", str(root), "--port", str(port), "--node-name", "n1"]) == 1
    assert "choose another with --port" in capsys.readouterr().err
    assert not (root / "pki").exists()


def test_root_that_is_a_file_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "f").touch()
    assert main(["up", "--root", str(root / "f" / "x"), "--node-name", "n1"]) == 1
    assert "cannot write below" in capsys.readouterr().err


def test_kubelet_directory_that_cannot_be_made_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "f").touch()
    kubelet = root / "f" / "kubelet"
    up = ["up", "--root", str(root / "state"), "--kubelet-dir", str(kubelet), "--port", "0", "--node-name", "n1"]
    assert main(up) == 1
    error = capsys.readouterr().err
    assert f"cannot write below {kubelet}: Not a directory" in error
    assert "use --kubelet-dir" in error


def test_root_too_long_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--root", "/tmp/" + "x" * 120]) == 2
    assert "use a shorter --root" in capsys.readouterr().err


def test_supervisor_imports_stay_few() -> None:
    code = "import sys, supervisor.plane.supervisor, supervisor.plane.start; print([m for m in sys.modules if m in %r])"
    heavy = ("grpc", "aiohttp", "cryptography", "uvloop", "prometheus_client", "actors.store.actor")
    done = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_status_of_groups_is_merged() -> None:
    node = PlaneStatus("supervisor-node", 2, 5.0, (), {"metrics": "port 1 is in use", "api": "https://x"})
    control = PlaneStatus(
        "supervisor-control", 1, 9.0, (), {"metrics": "http://127.0.0.1:1/metrics", "api": "https://x"}
    )
    merged = merge([node, control])
    assert merged.endpoints["metrics"] == "http://127.0.0.1:1/metrics"
    assert merged.uptime_s == 9.0


def test_signal_name_or_number_is_read() -> None:
    assert [signal_number(text) for text in ("9", "KILL", "sigstop")] == [9, 9, 19]
    for text in ("BANG", "0", "²", "9" * 5000):
        with pytest.raises(UsageError, match="is no signal"):
            signal_number(text)


def test_scale_groups_picks_watcher_supervisors() -> None:
    assert watcher_supervisors(["supervisor"]) == ["supervisor"]
    assert watcher_supervisors(["supervisor-control", "supervisor-watcher"]) == ["supervisor-watcher"]
    lines = ["supervisor-watch-2", "supervisor-watch-3", "supervisor-watcher"]
    assert watcher_supervisors(lines) == ["supervisor-watcher", "supervisor-watch-2", "supervisor-watch-3"]
    with pytest.raises(UsageError, match="no watcher group"):
        watcher_supervisors(["supervisor-node"])


def test_slot_of_honcho_line_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONCHO_PROCESS_NAME", "watcher.3")
    assert _slot("watcher") == 2
    with pytest.raises(UsageError):
        _slot("node")
    for number, slot in (("²", 0), ("x", 0), ("1", 0), ("0", None), ("10", None)):
        monkeypatch.setenv("HONCHO_PROCESS_NAME", f"watcher.{number}")
        with nullcontext() if slot == 0 else pytest.raises(UsageError, match="up to 9 times"):
            assert _slot("watcher") == slot
    assert under_honcho(os.environ) == ("INVOCATION_ID" not in os.environ)


def test_top_reads_proc() -> None:
    assert cpu_seconds(os.getpid()) > 0
    assert pss_mib(os.getpid()) > 1
    assert cpu_seconds(2**30) == 0


def test_top_watch_in_a_pipe_is_plain_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    samples = iter([Table(("ACTOR",), [("store",)])])
    monkeypatch.setattr(top, "_measured", lambda args: next(samples))
    with pytest.raises(StopIteration):
        top._watch(argparse.Namespace())
    assert capsys.readouterr().out == "ACTOR\nstore\n"


def test_duration_is_shown_short() -> None:
    assert [duration(s) for s in (0.25, 65, 3700, 90061)] == ["0.2s", "1m5s", "1h1m", "1d1h"]


def test_disk_full_is_one_line(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("supervisor.startup.prepare.save_settings", full)
    assert main(["up", "--root", str(root), "--port", "0", "--node-name", "n1"]) == 1
    assert capsys.readouterr().err.startswith(f"nodeplane: {root}/run/settings.json: No space left on device; free")
    monkeypatch.setattr("supervisor.root.directories.write_atomic", full)
    assert main(["up", "--root", str(root), "--port", "0", "--node-name", "n1"]) == 1
    assert "cannot write below" in capsys.readouterr().err


def test_packages_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.base.errors.PACKAGES", {"pytest": "nothing.py"})
    with pytest.raises(ForeignPackage, match="environment of its own"):
        check_packages()


def test_up_ends_with_the_next_steps(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(name: str, state: str, kubeconfig: Path) -> str:
        actor = ActorStatus("store", "control", 7, state, 1.0, 0, "killed by SIGKILL")
        return summary(PlaneStatus(name, 1, 1.0, (actor,), {"kubeconfig": str(kubeconfig)}), 1.0)

    config = root / "my kubeconfig"
    config.touch()
    last = [f"export KUBECONFIG='{config}'", f"nodeplane console --root {root}"]
    assert told("supervisor", "live", config).splitlines()[-2:] == last
    config_of_default = Path(default_root()) / "kubeconfig"
    with monkeypatch.context() as patch:
        patch.setattr("os.path.exists", lambda path: True)
        assert told("supervisor", "live", config_of_default).splitlines()[-1] == "nodeplane console"
    others = (("supervisor-node", "live", config), ("supervisor", "failed", config), ("supervisor", "live", root / "x"))
    assert not any("export" in told(*case) for case in others)


def test_up_detached_waiting_shows_what_is_missing(capfd: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    console = Console("supervisor", writing)
    console.waiting("still waiting; watchcache: the store is away")
    console.ready("all\nfine")
    assert wait_until_started(reading, os.getpid()) == 0
    told = capfd.readouterr()
    assert told.err == "nodeplane: still waiting; watchcache: the store is away\n"
    assert told.out == "all\nfine\n"


DETACHED = """
import os, sys
from supervisor.base.options import PlaneOptions
from supervisor.forkserver.client import environment
from supervisor.report.console import detach_plane

plane, pipe = detach_plane(PlaneOptions(root=sys.argv[1]))
if plane:
    print(os.read(pipe, 4096).decode(), end="")
else:
    modules = environment()["PYTHONPATH"].split(os.pathsep)[-1]
    os.write(pipe, f"{os.getcwd()} {os.path.exists('/proc/self/fd/' + sys.argv[2])} {modules}".encode())
"""


def test_detached_plane_keeps_neither_directory_nor_files_of_its_caller(root: Path) -> None:
    (root / "logs").mkdir()
    with (root / "lock").open("w") as lock:
        command = [sys.executable, "-c", DETACHED, str(root), str(lock.fileno())]
        environment, inherited = {**os.environ, "PYTHONPATH": "modules"}, (lock.fileno(),)
        done = subprocess.run(
            command, cwd=REPO, env=environment, capture_output=True, text=True, check=True, pass_fds=inherited
        )
    assert done.stdout == f"{root} False {REPO}/modules"


INTERRUPTED = """
import os, signal, sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "supervisor.base.errors":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
sys.meta_path.insert(0, Interrupted())
from supervisor.cli.main import main
sys.exit(main())
"""


def test_ctrl_c_while_modules_load_is_no_traceback() -> None:
    command = [sys.executable, "-c", INTERRUPTED, "version"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("words", [("logs", "-f"), ("top", "--watch"), ("status", "--watch")])
def test_ctrl_c_is_the_clean_end_of_what_goes_on_until_then(
    words: tuple[str, ...], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "logs").mkdir()
    (root / "logs" / "store.log").touch()
    plane = PlaneStatus("test", 1, 0.0, (), {})
    for module in (status, top):
        monkeypatch.setattr(module, "ask", lambda layout, question: plane)
        monkeypatch.setattr(module.time, "sleep", Mock(side_effect=KeyboardInterrupt))
    assert main(["--root", str(root), *words]) == 0


def test_ctrl_c_that_interrupts_a_command_has_the_exit_code_of_a_shell(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was 130 while modules load, and 1 a moment later."""
    monkeypatch.setattr(orders, "orphaned", Mock(side_effect=KeyboardInterrupt))
    assert main(["--root", str(root), "down"]) == 130
    assert capsys.readouterr().err == ""


def test_down_stops_containers_of_a_supervisor_that_was_killed_meanwhile(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(orders, "supervisors", lambda run: {"supervisor": 1})
    monkeypatch.setattr(orders, "orphaned", lambda root: {root: 2})
    monkeypatch.setattr(orders, "take_over", taken := Mock())
    monkeypatch.setattr(orders, "_stop", stopped := Mock())
    assert main(["--root", str(root), "down"]) == 0
    assert (stopped.call_count, taken.call_count) == (2, 1)
    assert "stopping 2 containers" in capsys.readouterr().err
    assert main(["--root", str(root), "down", "--keep-containers"]) == 0
    assert (stopped.call_count, taken.call_count) == (3, 1)
    taken.side_effect = SupervisorError("the runtime did not start")
    assert main(["--root", str(root), "down"]) == 0, "a second `down` has taken them over"
    monkeypatch.setattr(orders, "orphaned_containers", lambda root: 2)
    monkeypatch.setattr(orders, "supervisors", lambda run: {})
    assert main(["--root", str(root), "down"]) == 1
