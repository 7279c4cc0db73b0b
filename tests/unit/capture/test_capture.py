"""The script that `nodeplane capture` makes of recorded calls; tests/integration/test_capture.py plays one."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from actors.simulator.plugin.script import PluginScript
from protocols.messages.calls import CallRecord
from protocols.process.scripts import parse_script
from supervisor.capture import command
from supervisor.capture.parts import NothingToCapture, script_text
from supervisor.capture.script import MOST_FLOOD, captured
from supervisor.cli.main import main

RESOURCE = "example.com/gpu"
BEGIN_NS = 1_700_000_000 * 10**9


def call(at: float, method: str, status: str = "OK", seconds: float = 0.001, **rest: Any) -> CallRecord:
    return CallRecord(RESOURCE, method, BEGIN_NS + int(at * 1e9), status=status, seconds=seconds, number=1, **rest)


def listed(at: float, *added: str, **reply: Any) -> CallRecord:
    devices = {"added": [{"ID": id, "health": "Healthy"} for id in added]} if added else {}
    return call(at, "ListAndWatch", seconds=0.0, incoming=True, reply={"devices": 2, **devices, **reply})


def ended(at: float, status: str, error: str = "", outcome: str = "devices are Unknown") -> CallRecord:
    return call(at, "ListAndWatch", status, 0.0, incoming=True, error=error, outcome=outcome)


def registered(at: float = 0.0, *ids: str, **options: bool) -> list[CallRecord]:
    return [call(at, "GetDevicePluginOptions", reply=options), listed(at + 0.01, *(ids or ("a", "b")))]


def allocated(at: float, *ids: str, status: str = "OK", seconds: float = 0.001, **rest: Any) -> CallRecord:
    return call(at, "Allocate", status, seconds, request={"container_requests": [{"devices_ids": list(ids)}]}, **rest)


def script_of(*records: CallRecord, since_ns: int = 0) -> dict[str, Any]:
    """Return the script, which `nodeplane plugin` reads."""
    text = script_text(captured(RESOURCE, records, since_ns))
    parse_script("captured.yaml", text.encode(), PluginScript)
    script: dict[str, Any] = yaml.safe_load(text)
    return script


@pytest.mark.parametrize("flags", [(), ("-o", "-")])
def test_script_is_printed_without_a_file(
    flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-o -` wrote a file called `-`."""
    monkeypatch.setattr(command, "_on_plane", lambda args: captured(RESOURCE, registered(), 0))
    assert main(["capture", RESOURCE, *flags]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["resource"] == RESOURCE


def test_lists_are_played_as_their_differences() -> None:
    changed = listed(1, changed=[{"ID": "a", "health": "Healthly"}, {"ID": "b", "health": "Healthy", "numa": [1]}])
    script = script_of(*registered(), changed, listed(2, "c", removed=[{"ID": "a"}]), listed(3))
    assert script["devices"] == [{"id": "a"}, {"id": "b"}]
    assert script["steps"] == [
        {"at": "1s", "health": {"a": "Healthly"}, "add": [{"id": "b", "numa": [1]}]},
        {"at": "2s", "add": [{"id": "c"}], "remove": ["a"]},
    ]


def test_ends_are_clean_a_crash_or_an_error() -> None:
    records = [*registered(), ended(1, "OK"), *registered(2), ended(3, "UNAVAILABLE"), *registered(4)]
    records += [ended(5, "DATA_LOSS", "ListAndWatch ended: rpc error: code = DataLoss desc = lost")]
    steps = script_of(*records)["steps"]
    assert [step.get("end") or step.get("crash") or step.get("register") for step in steps[:4]] == [True] * 4
    assert steps[4] == {"at": "5s", "end": {"error": "lost", "code": "DATA_LOSS"}}


def test_streams_that_the_node_ended_are_no_ends_of_the_plugin() -> None:
    other = ended(1.1, "OK", outcome="another connection of this resource serves")
    assert script_of(*registered(), *registered(1), ended(1.05, "CANCELLED"), other)["steps"] == [
        {"at": "1s", "register": True}
    ]


def test_faults_of_calls_come_in_the_order_of_the_calls() -> None:
    calls = [allocated(1, "a"), allocated(2, "a"), allocated(3, "b", status="INTERNAL", error="no")]
    calls += [allocated(4, "a", seconds=2.04), allocated(7, "a", status="DEADLINE_EXCEEDED", seconds=30)]
    calls += [allocated(40, "a"), allocated(50, "a", status="", seconds=5)]
    assert script_of(*registered(), *calls)["calls"]["Allocate"] == [
        {"times": 2},
        {"error": "no", "code": "INTERNAL"},
        {"delay": "2s"},
        {"hang": True},
        {"times": 1},
        {"hang": True},
    ]


def test_a_death_in_a_call_is_played_in_the_call_and_its_restart_after_it() -> None:
    died = [allocated(1, "a", status="UNAVAILABLE", seconds=0.3, error="Socket closed"), ended(1.3, "UNAVAILABLE")]
    script = script_of(*registered(), *died, *registered(3.3, "a", "c"))
    assert script["calls"] == {"Allocate": [{"delay": "0.3s", "crash": True, "restart": "2s"}]}
    assert script["steps"] == [{"at": "3.3s", "add": [{"id": "c"}], "remove": ["b"]}]
    assert script_of(*registered(), *died)["calls"] == {"Allocate": [{"delay": "0.3s", "crash": True}]}
    cut = [allocated(1, "a", status="CANCELLED", seconds=0.3), ended(1.3, "UNAVAILABLE")]
    assert script_of(*registered(), *cut)["calls"] == {"Allocate": [{"delay": "0.3s", "crash": True}]}


def test_an_unavailable_answer_of_a_plugin_that_lives_is_an_error() -> None:
    script = script_of(*registered(), allocated(1, "a", status="UNAVAILABLE", error="busy"))
    assert script["calls"] == {"Allocate": [{"error": "busy", "code": "UNAVAILABLE"}]}


def test_rejected_registrations_are_played_with_what_was_wrong() -> None:
    request = {"version": "v1beta1", "endpoint": "x.sock", "resource_name": RESOURCE}
    version = call(1, "Register", "UNKNOWN", incoming=True, request=request | {"version": "v2"})
    endpoint = call(2, "Register", "UNKNOWN", incoming=True, request=request)
    options = call(3, "Register", "UNKNOWN", 0.5, incoming=True, request=request)
    failed = call(3.1, "GetDevicePluginOptions", "INTERNAL", error="no")
    assert script_of(*registered(), version, endpoint, options, failed)["steps"] == [
        {"at": "1s", "register": {"version": "v2"}},
        {"at": "2s", "register": {"endpoint": "x.sock"}},
        {
            "at": "3s",
            "calls": {"GetDevicePluginOptions": {"error": "no", "code": "INTERNAL", "times": 1}},
            "register": True,
        },
    ]


def test_answers_that_follow_no_pattern_are_kept_by_ids() -> None:
    one = allocated(1, "a", reply={"container_responses": [{"envs": {"X": "a"}}]})
    two = allocated(2, "b", reply={"container_responses": []})
    script = script_of(*registered(), one, two)
    assert script["answers"] == {"a": {"envs": {"X": "a"}}, "b": {"envs": {}, "containers": 0}}


def test_answers_that_follow_a_pattern_are_one() -> None:
    device = {"container_path": "/dev/gpu-1", "host_path": "/dev/gpu-1", "permissions": "rw"}
    two = [device, {**device, "container_path": "/dev/gpu-2", "host_path": "/dev/gpu-2"}]
    one = allocated(1, "gpu-1", reply={"container_responses": [{"envs": {"X": "gpu-1"}, "devices": [device]}]})
    both = {"container_responses": [{"envs": {"X": "gpu-1,gpu-2"}, "devices": two}]}
    script = script_of(*registered(), one, allocated(2, "gpu-1", "gpu-2", reply=both))
    assert "answers" not in script
    assert script["answer"] == {
        "envs": {"X": "$IDS"},
        "devices": [{"containerPath": "/dev/$ID", "hostPath": "/dev/$ID", "permissions": "rw"}],
    }


@pytest.mark.parametrize(
    ("chosen", "strategy"), [(["a"], "first"), (["b"], "last"), ([], "few"), (["alien"], "foreign")]
)
def test_preferences_become_the_strategy_that_answers_like_them(chosen: list[str], strategy: str) -> None:
    asked = {"container_requests": [{"available_deviceIDs": ["a", "b"], "allocation_size": 1}]}
    reply = {"container_responses": [{"deviceIDs": chosen}]}
    preferred = call(1, "GetPreferredAllocation", request=asked, reply=reply)
    options = registered(0, "a", get_preferred_allocation_available=True, pre_start_required=True)
    script = script_of(*options, preferred)
    assert (script["preferred"], script["preStart"]) == (strategy, True)


def test_devices_beyond_the_record_are_named_and_counted() -> None:
    cut = msgspec.structs.replace(listed(0.01, "a", devices=3), omitted={"reply.added": 2})
    found = captured(RESOURCE, [call(0, "GetDevicePluginOptions"), cut])
    assert [device["id"] for device in found.script["devices"]] == ["a", "unrecorded-0", "unrecorded-1"]
    assert "2 devices or characters" in script_text(found)


def test_floods_late_lists_and_old_registrations() -> None:
    flood = CallRecord(RESOURCE, "ListAndWatch", BEGIN_NS + 10**9, reply={"devices": 2}, status="OK", times=10**6)
    assert script_of(*registered(), flood)["steps"] == [{"at": "1s", "flood": MOST_FLOOD}]
    late = [call(0, "GetDevicePluginOptions"), listed(2, "a", "b")]
    assert script_of(*late)["calls"] == {"ListAndWatch": [{"delay": "2s"}]}
    old = [*registered(), ended(5, "OK"), *registered(60), ended(70, "OK")]
    assert script_of(*old, since_ns=BEGIN_NS + 65 * 10**9)["steps"] == [{"at": "10s", "end": True}]
    week = 8 * 24 * 3600
    assert script_of(*old, ended(week, "OK"))["steps"][0]["at"] == "10s"


@pytest.mark.parametrize("records", [[], [listed(0, "a")], [call(0, "GetDevicePluginOptions")]])
def test_a_record_without_a_registration_and_its_list_is_an_error(records: list[CallRecord]) -> None:
    with pytest.raises(NothingToCapture, match="holds no registration"):
        captured(RESOURCE, records)


@pytest.mark.parametrize("place", ["absent/script.yaml", "."])
def test_output_that_cannot_be_written_is_found_before_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    output = tmp_path / place
    assert main(["capture", "example.com/gpu", "--kubelet", str(tmp_path), "-o", str(output)]) == 2
    assert capsys.readouterr().err.startswith(f"nodeplane: --output {output} cannot be written")
