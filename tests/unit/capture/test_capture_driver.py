"""The script that `nodeplane capture` makes of a DRA driver's calls; an integration test plays one."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actors.simulator.driver.script import DriverScript
from protocols.messages.calls import CallRecord
from protocols.process.scripts import parse_script
from supervisor.capture.claims import LASTING, name_pattern
from supervisor.capture.devices import Published, Version, offers, published, published_over_time
from supervisor.capture.driver import calls_of, captured_driver, is_driver
from supervisor.capture.parts import CALLS_ROOM, DEVICES_ROOM, ROOM, NothingToCapture, script_text

DRIVER = "gpu.example.com"
BEGIN_NS = 1_700_000_000 * 10**9
VERSIONS = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
DEVICES = Published(({"name": "left"}, {"name": "right"}))


def call(at: float, method: str, status: str = "OK", seconds: float = 0.001, **rest: Any) -> CallRecord:
    given = {"peer": DRIVER, "socket": "/dra.sock", "number": 1, **rest}
    return CallRecord(method=method, began_ns=BEGIN_NS + int(at * 1e9), status=status, seconds=seconds, **given)


def registered(at: float = 0.0, endpoint: str = "/dra.sock", **info: Any) -> CallRecord:
    reply = {"type": "DRAPlugin", "name": DRIVER, "endpoint": endpoint, "supported_versions": VERSIONS, **info}
    return call(at, "GetInfo", reply=reply, socket="/reg.sock", outcome="accepted as DRAPlugin")


def heard(at: float, method: str = "NodeWatchResources", **health: str) -> CallRecord:
    words = {name: text.partition(": ") for name, text in health.items()}
    changed = [{"device_name": name, "health": word, "message": said} for name, (word, _, said) in words.items()]
    return call(at, method, seconds=0.0, incoming=True, reply={"devices": 2, "changed": changed})


def ended(at: float, status: str = "OK", text: str = "", method: str = "NodeWatchResources", **rest: Any) -> CallRecord:
    error = f"its health stream ended: {text}"
    return call(at, method, status, 0.0, incoming=True, error=error, **rest)


def prepared(at: float, *errors: str | None, names: str = "a", method: str = "Prepare", **rest: Any) -> CallRecord:
    """A call for claims called by letters; None = no entry, "" = well, `none` = no device, `bare` = no CDI name."""
    well = {"device_name": "left", "cdi_device_ids": ["d/k=x"]}
    devices = {"": [well], "none": [], "bare": [{"device_name": "left"}]}
    answers = {
        f"uid-{name}": {"devices": devices[error]} if error in devices else {"error": error}
        for name, error in zip(names, errors, strict=False)
        if error is not None
    }
    asked = [{"namespace": "ns", "name": name, "uid": f"uid-{name}"} for name in names]
    reply = {"claims": answers} if errors else {}
    return call(at, f"Node{method}Resources", request={"claims": asked}, reply=reply, **rest)


def script_of(*records: CallRecord, known: Published = DEVICES, since_ns: int = 0) -> dict[str, Any]:
    """Return the script, which `nodeplane dra-driver` reads."""
    text = script_text(captured_driver(DRIVER, records, known, since_ns))
    parse_script("captured.yaml", text.encode(), DriverScript)
    script: dict[str, Any] = yaml.safe_load(text)
    return script


def calls_in(*records: CallRecord) -> Any:
    return script_of(registered(), *records).get("calls", {}).get("NodePrepareResources")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("gpu-claim", "gpu-claim"),
        ("two-gpu-t8jc6", "two-gpu-*"),
        ("web-6d4cf56db6-x7k2p-gpu-bcdfg", "web-*-gpu-*"),
    ],
)
def test_generated_parts_of_a_claims_name_are_any(name: str, pattern: str) -> None:
    assert name_pattern(name) == pattern


def test_claims_of_one_name_fail_in_the_order_of_the_calls() -> None:
    assert calls_in(prepared(1, "no"), prepared(2, "no"), prepared(3, "")) == [
        {"claims": {"*": {"error": "no"}}, "times": 2}
    ]
    assert calls_in(prepared(1, ""), prepared(2, None), prepared(3, "none")) == [
        {"times": 1},
        {"claims": {"*": {"skip": True}}},
        {"claims": {"*": {"devices": 0}}, "times": LASTING},
    ]


def test_claims_that_always_fail_alike_fail_by_their_name_in_each_call() -> None:
    both = prepared(5, "", "no", names="ab")
    assert calls_in(prepared(1, "", seconds=0.52), prepared(2, "no", names="b"), prepared(3, "", names="c"), both) == [
        {"delay": "0.5s", "claims": {"b": {"error": "no"}}},
        {"claims": {"b": {"error": "no"}}, "times": LASTING},
    ]
    assert calls_in(prepared(1, ""), prepared(2, "bare", names="b")) == {"claims": {"b": {"cdi": []}}}


def test_a_fault_of_every_call_lasts_and_well_calls_are_none() -> None:
    assert calls_in(prepared(1, "no", names="a"), prepared(2, "no", names="b")) == {"claims": {"*": {"error": "no"}}}
    error = {"status": "INTERNAL", "error": "rpc error: code = Internal desc = broken"}
    assert calls_in(prepared(1, **error), prepared(2, **error)) == {"error": "broken", "code": "INTERNAL"}
    assert calls_in(prepared(1, ""), prepared(2, "")) is None
    assert calls_in(prepared(1, "", seconds=0.2), prepared(2, "")) == [{"delay": "0.2s"}]


def test_answers_beyond_the_record_are_no_faults() -> None:
    assert calls_in(prepared(1, None, omitted={"reply.claims": 9})) is None


def test_calls_without_an_answer_hang_unless_the_pod_went_away() -> None:
    late = prepared(1, status="DEADLINE_EXCEEDED", seconds=45.0, deadline=45.0)
    open_call = prepared(50, status="", seconds=3.0)
    assert calls_in(late, open_call) == {"hang": True}
    assert calls_in(prepared(1, status="CANCELLED", seconds=0.2), prepared(2, status="", seconds=0.2)) is None
    own = prepared(1, status="DEADLINE_EXCEEDED", error="busy", seconds=0.01, deadline=45.0)
    assert calls_in(own) == {"error": "busy", "code": "DEADLINE_EXCEEDED"}


def test_a_death_in_a_call_is_played_in_it_and_unreached_calls_are_not() -> None:
    died = prepared(1, status="UNAVAILABLE", seconds=0.3, error="Socket closed")
    unreached = prepared(2, status="UNAVAILABLE", error="failed to connect")
    script = script_of(registered(), heard(0.1), died, ended(1.3, "UNAVAILABLE"), unreached, registered(3.3))
    assert script["calls"] == {"NodePrepareResources": [{"delay": "0.3s", "crash": True, "restart": "2s"}]}
    assert "steps" not in script
    silent = script_of(registered(), died, unreached, registered(3.3), prepared(4, ""))
    assert silent["calls"] == script["calls"]
    assert calls_in(died, prepared(2, "")) == [{"delay": "0.3s", "error": "Socket closed", "code": "UNAVAILABLE"}]


def test_health_is_played_as_its_changes_and_begins_with_the_first_message() -> None:
    messages = heard(0.1, left="Healthy", right="Unhealthy: ECC"), heard(2, left="Unhealthy: hot", right="Unknown: ECC")
    script = script_of(registered(), *messages, heard(3))
    assert script["devices"] == [{"name": "left"}, {"name": "right", "health": "Unhealthy", "message": "ECC"}]
    assert script["steps"] == [
        {"at": "2s", "health": {"left": "Unhealthy"}, "message": "hot"},
        {"at": "2s", "health": {"right": "Unknown"}, "message": "ECC"},
    ]


def test_streams_end_alone_or_with_their_driver() -> None:
    first = [registered(), heard(0.1), ended(1), heard(6), ended(7, "DATA_LOSS", "lost"), heard(12)]
    alone = script_of(*first)["steps"]
    assert alone == [{"at": "1s", "end": True}, {"at": "7s", "end": {"error": "lost", "code": "DATA_LOSS"}}]
    gone = [ended(13), registered(20), heard(20.1), ended(21, "UNAVAILABLE", "Socket closed"), registered(25)]
    assert script_of(*first, *gone)["steps"][2:] == [
        {"at": "13s", "stop": True},
        {"at": "20s", "register": True},
        {"at": "21s", "crash": True},
        {"at": "25s", "register": True},
    ]


def test_streams_that_cannot_be_opened_fail_from_where_they_were_opened() -> None:
    failed = [ended(at, "UNIMPLEMENTED", "no such service") for at in (0.1, 5.1)]
    fault = {"error": "no such service", "code": "UNIMPLEMENTED"}
    script = script_of(registered(), *failed, heard(10))
    assert (script["calls"], script["steps"]) == (
        {"NodeWatchResources": fault},
        [{"at": "10s", "calls": {"NodeWatchResources": {}}}],
    )
    later = script_of(registered(), heard(0.1), ended(1), ended(6, "UNIMPLEMENTED", "no such service"))
    assert later["steps"] == [{"at": "1s", "end": True, "calls": {"NodeWatchResources": fault}}]


def test_older_instances_end_unseen_when_a_new_one_has_registered() -> None:
    script = script_of(registered(), heard(0.1), registered(5, "/new.sock"), ended(6, "UNAVAILABLE"))
    assert script["steps"] == [{"at": "5s", "register": True}]


def test_versions_and_the_health_service_are_the_drivers_own() -> None:
    beta = registered(supported_versions=["v1beta1.DRAPlugin"])
    assert script_of(beta)["versions"] == ["v1beta1.DRAPlugin"]
    assert "versions" not in script_of(registered())
    unnamed = script_of(beta, heard(1, "WatchDevicesStatus"))
    assert (unnamed["versions"], unnamed["nodeHealth"]) == (["v1beta1.DRAPlugin"], True)
    named = registered(supported_versions=["v1.DRAPlugin", "v1alpha1.NodeHealth"])
    lost = ended(2, "DATA_LOSS", "lost", method="WatchDevicesStatus")
    script = script_of(named, ended(0.1, "DATA_LOSS", "lost", method="WatchDevicesStatus"), lost)
    assert (script["versions"], "nodeHealth" in script) == (["v1.DRAPlugin", "v1alpha1.NodeHealth"], False)
    assert script["calls"] == {"WatchDevicesStatus": {"error": "lost", "code": "DATA_LOSS"}}
    none = ended(0.1, "UNIMPLEMENTED", "no such service", method="WatchDevicesStatus")
    assert set(script_of(beta, none)) == {"driver", "devices", "versions"}


def heard_for(seconds: float, at: float, before: str = "", **health: str) -> CallRecord:
    record = heard(at, **health)
    for each in record.reply["changed"]:
        each |= {"timeout": seconds, **({"before": before} if before else {})}
    return record


def test_silent_stream_is_silent_from_its_last_message_until_it_speaks_or_ends() -> None:
    messages = registered(), heard_for(5.0, 0.1, left="Healthy"), heard(4)
    silence = [{"at": "4s"}, {"at": "4.1s", "silent": True}]
    speaks = script_of(*messages, heard_for(5.0, 20, "Unknown", left="Unhealthy: fan"))
    assert speaks["healthTimeout"] == 5
    assert speaks["steps"] == [
        *silence,
        {"at": "20s", "health": {"left": "Unhealthy"}, "message": "fan"},
        {"at": "20s", "silent": False},
    ]
    ends = script_of(*messages, ended(20), heard(25))
    assert ends["steps"] == [*silence, {"at": "20s", "end": True}, {"at": "20.1s", "silent": False}]
    until_ns = BEGIN_NS + 30 * 10**9
    assert captured_driver(DRIVER, messages, DEVICES, until_ns=until_ns).script["steps"] == silence
    assert "steps" not in captured_driver(DRIVER, messages, DEVICES, until_ns=BEGIN_NS + 10 * 10**9).script
    assert "steps" not in script_of(*messages, heard(20)), "of equal messages only the last one's time is known"
    own = heard_for(5.0, 0.1, left="Unknown"), heard(4), heard_for(5.0, 20, "Unknown", left="Healthy")
    assert script_of(registered(), *own)["steps"] == [{"at": "20s", "health": {"left": "Healthy"}}]
    statuses = [heard(at, "WatchDevicesStatus", left="Healthy") for at in (0.1, 90)]
    assert "steps" not in script_of(registered(), *statuses)


def test_answer_to_get_info_that_the_node_rejected_is_played_as_it_was() -> None:
    def rejected(at: float, **info: Any) -> CallRecord:
        given = {"type": "DRAPlugin", "name": DRIVER, "endpoint": "/dra.sock", "supported_versions": VERSIONS, **info}
        return call(at, "GetInfo", reply=given, socket="/reg.sock", outcome="no handler: it is not registered")

    answers = rejected(-3, type="CSIPlugin"), rejected(-2, name="Bad_Name", endpoint="dra.sock"), registered()
    assert script_of(*answers)["calls"] == {
        "GetInfo": [{"info": {"type": "CSIPlugin"}}, {"info": {"name": "Bad_Name", "endpoint": "dra.sock"}}]
    }
    always = [rejected(at, type="CSIPlugin") for at in (0, 1, 3)]
    assert is_driver(always)
    assert script_of(*always)["calls"] == {"GetInfo": {"info": {"type": "CSIPlugin"}}}


def test_registration_that_fails_is_played_in_the_order_of_its_calls() -> None:
    away = call(-3, "GetInfo", "UNAVAILABLE", peer="gpu-reg.sock", socket="/reg.sock")
    failed = call(-2, "GetInfo", "INTERNAL", error="not yet", peer="gpu-reg.sock", socket="/reg.sock")
    hung = call(-1, "GetInfo", "DEADLINE_EXCEEDED", 1.0, peer="gpu-reg.sock", socket="/reg.sock", deadline=1.0)
    notified = call(0.1, "NotifyRegistrationStatus", "UNKNOWN", error="I refuse", socket="/reg.sock")
    mine = calls_of(DRIVER, [away, failed, hung, registered(), notified])
    assert is_driver(mine)
    assert script_of(*mine)["calls"] == {
        "GetInfo": [{"error": "not yet", "code": "INTERNAL"}, {"hang": True}],
        "NotifyRegistrationStatus": {"error": "I refuse", "code": "UNKNOWN"},
    }
    assert not is_driver([call(0, "ListAndWatch")])
    with pytest.raises(NothingToCapture, match="GetInfo"):
        captured_driver(DRIVER, [failed], DEVICES)


def test_the_record_begins_with_the_registration_in_force() -> None:
    old = [registered(), prepared(1, "no"), registered(60), prepared(61, "")]
    assert "calls" not in script_of(*old, since_ns=BEGIN_NS + 65 * 10**9)


def slice_of(*devices: dict[str, Any], node: str = "n", pool: str = "n", generation: int = 2, **spec: Any) -> Any:
    described = {"name": pool, "generation": generation}
    return {"spec": {"nodeName": node, "pool": described, "devices": list(devices), **spec}}


def test_devices_are_those_of_the_nodes_newest_slices() -> None:
    attributes = {"uuid": {"string": "u"}}
    left = {"name": "left", "attributes": attributes, "nodeName": "n", "bindingConditions": ["x"]}
    counters = {"name": "card", "counters": {"memory": {"value": "1Gi"}}}
    slices = [slice_of(left), slice_of({"name": "old"}, generation=1), slice_of({"name": "other"}, node="m", pool="m")]
    slices += [slice_of({"name": "left"}, pool="second"), slice_of(sharedCounters=[counters])]
    found = published(slices, "n")
    assert found.devices == ({"name": "left", "attributes": attributes, "bindingConditions": ["x"]},)
    assert (found.counters, found.omitted) == ((counters,), 1)
    assert [device["name"] for device in published(slices, "elsewhere").devices] == ["left", "other"]
    script = script_of(registered(), known=found)
    assert (script["attach"], script["sharedCounters"]) == (1, [counters])
    large = [{"name": f"d{at}", "attributes": {"x": {"string": "y" * 50_000}}} for at in range(20)]
    assert published([slice_of(*large)], "n").omitted == 20 - DEVICES_ROOM // 50_100


TEXTS = st.sampled_from(["", "left", "Healthy", "Unhealthy", "Unknown", "x" * 2000, "a: b", "\x1b[2J\n", "\u202e", "*"])
REPORTS = st.builds(
    lambda at, timeout, before, word, message: call(
        at,
        "NodeWatchResources",
        incoming=True,
        reply={
            "devices": 1,
            "changed": [
                {"device_name": "left", "health": word, "message": message, "timeout": timeout, "before": before}
            ],
        },
    ),
    st.floats(0, 1e5),
    st.sampled_from([0, 1, 5.0, 1e9]),
    TEXTS,
    TEXTS,
    TEXTS,
)
INFOS = st.builds(
    lambda at, kind, name, version: registered(at, type=kind, name=name, supported_versions=[version]),
    st.floats(0, 1e5),
    TEXTS,
    TEXTS,
    TEXTS,
)
ENDS = st.builds(ended, st.floats(0, 1e5), st.sampled_from(["OK", "UNAVAILABLE", "DATA_LOSS"]), TEXTS)
CALLED = st.builds(
    lambda at, error, name, status: prepared(
        at, error, names=name, status=status, error=error if status not in ("OK", "") else ""
    ),
    st.floats(0, 1e5),
    TEXTS,
    st.sampled_from(["a", "b", "\x00", "*"]),
    st.sampled_from(["OK", "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", ""]),
)


@given(st.lists(st.one_of(REPORTS, INFOS, ENDS, CALLED), max_size=12))
def test_any_record_gives_a_script_that_is_read(records: list[CallRecord]) -> None:
    script_of(registered(), *records)


def test_script_of_a_long_record_has_a_mebibyte_at_most() -> None:
    noisy = [heard(at, left=f"Unhealthy: {at} {'x' * 900}") for at in range(3000)]
    failing = [prepared(at, f"{at} {'y' * 3000}") for at in range(500)]
    found = captured_driver(DRIVER, [registered(), *noisy, *failing], DEVICES)
    assert len(found.script["steps"]) + found.omitted > 3000
    assert len(json.dumps(found.script)) < ROOM + CALLS_ROOM + 1000


def test_devices_that_come_and_go_in_slices_do_so_in_steps() -> None:
    def version(at: float, generation: int, *names: str, count: int = 1) -> Version:
        found = slice_of(*({"name": name, "attributes": {"g": {"int": generation}}} for name in names))
        found["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": count}
        return BEGIN_NS + int(at * 1e9), [found]

    versions = [
        version(-60, 1, "left"),
        version(1, 2, "left", "right"),
        version(5, 3, "left", count=2),  # in the middle of an update
        version(6, 4, "right", "third"),
        (BEGIN_NS + 8 * 10**9, []),  # deleted by the node
        version(9, 5, "right"),
    ]
    known = published_over_time(versions, "n")
    script = script_of(registered(), heard(0.1, left="Healthy"), heard(7, left="Unhealthy"), known=known)
    assert [(device["name"], device.get("away", False)) for device in script["devices"]] == [
        ("left", False),
        ("right", False),
        ("third", True),
    ]
    assert [device["attributes"]["g"]["int"] for device in script["devices"]] == [2, 5, 4]
    assert script["steps"] == [
        {"at": "6s", "add": ["third"], "remove": ["left"]},
        {"at": "7s", "health": {"left": "Unhealthy"}},
        {"at": "9s", "remove": ["third"]},
    ]
    assert published_over_time([], "n") == Published()


def test_a_change_of_devices_that_were_cut_is_no_step() -> None:
    names = frozenset({"left", "right"})
    versions = ((0, names), (5 * 10**9, names | {"cut"}), (9 * 10**9, names - {"left"}))
    away, steps = offers(DEVICES._replace(offered=versions), 1)
    assert (away, [sorted(step) for step in steps]) == (set(), [["at", "remove"]])


def test_without_slices_devices_have_the_names_that_calls_hold() -> None:
    found = captured_driver(DRIVER, [registered(), heard(1, right="Healthy"), prepared(2, "")], Published())
    assert found.script["devices"] == [{"name": "left"}, {"name": "right"}]
    assert "devices have only the names" in script_text(found)
