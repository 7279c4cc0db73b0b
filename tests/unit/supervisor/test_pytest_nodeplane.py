"""pytest-nodeplane without a plane: its settings, manifests and what a wait says."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

import pytest_nodeplane
from pytest_nodeplane import killing
from pytest_nodeplane.node import objects_of
from pytest_nodeplane.processes import Process, program_name
from pytest_nodeplane.report import end_of, outputs
from pytest_nodeplane.sentences import devices_sentence, first_line_with, programs_sentence, waiting_pod
from pytest_nodeplane.settings import Settings, settings_of
from pytest_nodeplane.waiting import NotReached, PodWait, condition, describe, until
from supervisor.base.errors import NotRunning
from supervisor.client.devices import DeviceRow
from supervisor.testing.evidence import folded_lines


def settings(directory: Path, text: str) -> Settings:
    (directory / "pyproject.toml").write_text(text)
    return settings_of(directory)


def test_plugin_loads_nothing_of_nodeplane_before_a_test_uses_it() -> None:
    code = "import sys, pytest_nodeplane.plugin; print([n for n in ('grpc', 'supervisor', 'yaml') if n in sys.modules])"
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_package_has_its_types_and_no_other_names() -> None:
    assert all(getattr(pytest_nodeplane, name).__name__ == name for name in pytest_nodeplane.__all__)
    assert set(pytest_nodeplane.__all__) == set(pytest_nodeplane.MODULES)
    with pytest.raises(AttributeError, match="has no attribute 'Other'"):
        _ = pytest_nodeplane.Other


def test_settings_of_the_project_become_flags(tmp_path: Path) -> None:
    assert settings_of(tmp_path).words() == ["--nodes=1"]
    table = (
        '[tool.nodeplane]\nnodes = 2\nruntime = "unix:///r"\ngates = {A = true, B = false}\nflags = ["--watchers=2"]'
    )
    words = ["--nodes=2", "--runtime=unix:///r", "--feature-gates=A=true,B=false", "--watchers=2"]
    assert settings(tmp_path, table).words() == words
    assert settings(tmp_path, "[project]").words() == ["--nodes=1"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.nodeplane]\nnode = 2", "unknown field `node`"),
        ("[tool.nodeplane]\nnodes = 'two'", "Expected `int`, got `str`"),
        ("[tool.nodeplane]\nnodes = 0", "Expected `int` >= 1"),
        ("[tool.nodeplane", "Expected"),
    ],
)
def test_wrong_settings_are_an_error_that_names_the_table(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(pytest.UsageError, match=rf"pyproject.toml: \[tool.nodeplane\]: .*{says}"):
        settings(tmp_path, text)


def test_manifests_are_text_files_objects_and_lists(tmp_path: Path) -> None:
    one, two = {"kind": "A"}, {"kind": "B"}
    (tmp_path / "m.yaml").write_text("kind: A\n---\n---\nkind: List\nitems: [{kind: B}]\n")
    assert objects_of(tmp_path / "m.yaml") == [one, two]
    assert objects_of('{"kind": "A"}') == objects_of(one) == [one]
    assert objects_of([one, two]) == [one, two]


POD = {
    "status": {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "no devices",
        "conditions": [{"type": "Ready", "status": "False", "message": "m"}, {"type": "X", "status": "True"}],
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
}


def test_description_of_a_pod_says_what_it_lacks() -> None:
    line = "Failed UnexpectedAdmissionError no devices; main waiting CrashLoopBackOff; Ready=False m"
    assert describe(POD) == line
    assert condition(POD, "Ready") == "False"
    assert condition({}, "Ready") == ""


def test_wait_returns_the_pod_or_says_what_was_seen_last() -> None:
    wait = PodWait("p", lambda: POD, lambda: ["Warning  Failed"], lambda: "It is rejected: no devices")
    assert wait.failed() is POD
    with pytest.raises(NotReached) as raised:
        wait.running()
    assert str(raised.value).splitlines() == [
        "pod p runs: cannot happen any more: it has failed for good. It is rejected: no devices",
        f"It is {describe(POD)}",
        "Warning  Failed",
    ]
    with pytest.raises(NotReached, match="pod p is gone"):
        wait.gone(timeout=0)
    PodWait("p", dict, list).gone()


def test_running_needs_every_container() -> None:
    states = [{"name": "a", "state": {"running": {}}}, {"name": "b", "state": {"waiting": {}}}]
    pod = {"status": {"phase": "Running", "containerStatuses": states}}
    with pytest.raises(NotReached):
        PodWait("p", lambda: pod, list).running(timeout=0)
    states.pop()
    assert PodWait("p", lambda: pod, list).running() is pod


def test_until_waits_for_a_true_value() -> None:
    values = iter([0, "", 7])
    assert until("a number", lambda: next(values)) == 7


def test_output_that_is_read_while_a_process_writes_loses_nothing() -> None:
    process = Process(["sh", "-c", "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done"], os.environ)
    try:
        while process.runs:
            assert len(process.output) <= 64 << 10
        lines = process.output.splitlines()[1:]
        assert lines[-1] == "line 8999"
        assert lines == [f"line {number}" for number in range(9000 - len(lines), 9000)]
    finally:
        process.close()


@pytest.mark.parametrize("end", [Process.stop, Process.kill])
def test_children_of_a_process_end_with_it(end: Callable[[Process], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_nodeplane.processes.STOP_S", 0.2)
    process = Process(["sh", "-c", "sleep 60 & echo $!; trap '' TERM; wait; sleep 60"], os.environ)
    try:
        child = int(until("the child runs", lambda: process.output.strip()))
        end(process)
        assert not process.runs
        until("the child has ended", lambda: not Path(f"/proc/{child}/cmdline").exists() or is_zombie(child))
        end(process)  # once more is no error
    finally:
        process.close()


def is_zombie(pid: int) -> bool:
    return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


def test_wait_does_not_end_for_a_pod_that_another_may_replace() -> None:
    pods = iter([{**POD, "metadata": {"deletionTimestamp": "t"}}] * 4 + [{"status": {"phase": "Succeeded"}}])
    assert PodWait("p", lambda: next(pods), list).succeeded()


def test_missing_field_is_waited_for_and_named() -> None:
    found: dict[str, int] = {}
    with pytest.raises(NotReached, match=r"^x: not in 0 s\. What was read has no field 'a'$"):
        until("x", lambda: found["a"], timeout=0)
    with pytest.raises(NotReached, match=r"^x: not in 0 s\. What was read has too few items: list index"):
        until("x", lambda: [][0], timeout=0)


ROWS = [
    DeviceRow("a.b/c", "c-0", (), "Unhealthy", "ECC", "", ()),
    DeviceRow("a.b/c", "c-1", (0,), "Healthy", "", "ns/p", ("main",)),
]


def test_devices_are_named_in_a_sentence() -> None:
    assert devices_sentence("a.b/c", ROWS, "1") == "There are c-0 Unhealthy (ECC), c-1 Healthy; the API offers 1"
    assert devices_sentence("a.b/d", ROWS, "") == "There is no device of it, only of a.b/c"
    assert devices_sentence("a.b/d", [], "") == "There is no device of it"
    many = [DeviceRow("a.b/c", f"c-{at}", (), "Healthy", "", "", ()) for at in range(20)]
    assert devices_sentence("a.b/c", many, "").endswith("c-7 Healthy, 12 more; the API offers none")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3.11", "-u", "/x/plugin.py", "--a"], "plugin.py"),
        (["sh", "-c", "exec x"], "sh"),
        (["sh", "run.sh"], "run.sh"),
        (["/v/nodeplane", "watch", "pods"], "nodeplane watch"),
        (["./my-plugin", "--x", "y"], "my-plugin"),
        (["python"], "python"),
    ],
)
def test_program_has_the_name_of_its_script(command: list[str], name: str) -> None:
    assert program_name(command) == name


def test_sections_of_equal_programs_are_numbered_and_begin_at_a_line() -> None:
    processes = [Process(["sh", "-c", f"echo {number}"], os.environ) for number in range(2)]
    try:
        for process in processes:
            process.wait()
        assert outputs(processes) == {"output of sh": "0\n", "output of sh (2)": "1\n"}
        assert programs_sentence(processes).startswith("sh has ended with 0, its last line: 0; sh has")
        assert all(process.has_ended for process in processes)
    finally:
        for process in processes:
            process.close()
    text = "\n".join(f"line {number}" for number in range(9000))
    assert end_of(text).startswith("line ")
    assert end_of(text).endswith("line 8999")
    assert end_of("x") == "x"


def test_events_that_differ_in_names_only_are_folded() -> None:
    def event(name: str, message: str, at: int) -> dict[str, object]:
        about = {"kind": "Pod", "namespace": "n", "name": name}
        stamp = f"2026-01-01T00:00:{at:02}Z"
        return {
            "type": "Warning",
            "reason": "Rejected",
            "message": message,
            "involvedObject": about,
            "lastTimestamp": stamp,
        }

    events = [event(f"w-{at}", f"pod w-{at} has no device", at) for at in range(5)] + [event("x", "other", 2)]
    assert folded_lines(events) == [
        "Warning  Rejected  pod/n/x  other",
        "Warning  Rejected  pod/n/w-4  pod w-4 has no device  (5 times, 5 objects)",
    ]
    made = [event("w-1a", f"Created pod: w-1a-x{at}", at) for at in range(3)]
    assert folded_lines(made) == ["Warning  Rejected  pod/n/w-1a  Created pod: w-1a-x2  (3 times)"]


def test_pod_that_waits_is_the_newest_that_is_not_ready() -> None:
    def pod(name: str, made: str, phase: str = "Pending", ready: str = "False") -> dict[str, object]:
        conditions = [{"type": "Ready", "status": ready}]
        return {
            "metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:0{made}Z"},
            "status": {"phase": phase, "conditions": conditions},
        }

    pods = [pod("old", "1"), pod("new", "2"), pod("runs", "3", "Running", "True"), pod("done", "4", "Succeeded")]
    assert waiting_pod(pods) == "new"
    assert waiting_pod(pods[2:]) == ""


def test_devices_of_a_failed_assertion_are_words() -> None:
    free = DeviceRow("example.com/gpu", "gpu-0", (), "Healthy", "", "", ())
    held = DeviceRow("example.com/gpu", "gpu-1", (), "Unhealthy", "fan", "ns/a", ("main",))
    shown = "[<example.com/gpu gpu-0 Healthy, free>, <example.com/gpu gpu-1 Unhealthy (fan), held by ns/a>]"
    assert str([free, held]) == shown


def test_sentence_is_added_to_the_first_line() -> None:
    assert first_line_with("a\nb", "c") == "a. c\nb"
    assert [first_line_with("", "c"), first_line_with("a", "")] == ["c", "a"]


def test_actor_that_is_stopped_goes_on_when_the_kill_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killing, "ask", Mock(side_effect=NotRunning("no plane")))
    with subprocess.Popen(["sleep", "600"]) as actor:
        actor.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, actor.pid, os.WSTOPPED)
        try:
            with pytest.raises(NotRunning):
                killing._kill_actor(Mock(), "devices", actor.pid)
            continued = os.waitid(os.P_PID, actor.pid, os.WCONTINUED | os.WNOHANG)
        finally:
            actor.kill()
    assert continued is not None
    assert continued.si_code == os.CLD_CONTINUED
