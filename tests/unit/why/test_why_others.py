"""`nodeplane why` of devices, claims, nodes and plugins, from evidence that a real plane had."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from protocols.messages.calls import CallRecord
from protocols.messages.devices import PLUGIN_SILENT, PluginView
from supervisor.why.model.types import (
    ClaimEvidence,
    DeviceEvidence,
    DriverEvidence,
    Finding,
    NodeEvidence,
    PluginEvidence,
)
from supervisor.why.others.claims import diagnose_claim
from supervisor.why.others.devices import diagnose_device, diagnose_driver
from supervisor.why.others.nodes import diagnose_node
from supervisor.why.others.plugins import diagnose_plugin

T = TypeVar("T")
RECORDED = Path(__file__).parents[2] / "support" / "why"
NOW = 1_800_000_000.0


def recorded(name: str, kind: type[T]) -> T:
    return msgspec.json.decode((RECORDED / f"{name}.json").read_bytes(), type=kind)


def check(found: Finding, state: str, words: list[str]) -> None:
    assert (found.state, [word for word in words if word not in found.reason]) == (state, []), found


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        (
            "plugin-odd-health",
            "odd health",
            ["'healthy' (68 65 61 6c 74 68 79) for device gpu-2", "not exactly `Healthy`"],
        ),
        (
            "plugin-not-back",
            "did not come back",
            ["served before", "(restart ordered)", "is new since", "no Register since"],
        ),
        (
            "plugin-failing",
            "serves",
            ["2 of 2 devices healthy", "its last Allocate (default/rejalloc main) failed: INTERNAL: firmware too old"],
        ),
        ("plugin-serves-unhealthy", "serves unhealthy devices", ["0 of 2 devices healthy"]),
        (
            "plugin-stopped",
            "gone",
            ["example.com-nic-31571.sock served until", "closed its stream", "no Register since"],
        ),
    ],
)
def test_plugin_state_names_the_reason(name: str, state: str, words: list[str]) -> None:
    check(diagnose_plugin(recorded(name, PluginEvidence)), state, words)


def test_plugin_that_has_not_answered_is_busy() -> None:
    found = recorded("plugin-failing", PluginEvidence)
    pending = msgspec.structs.replace(found.calls[-1], status="", error="", outcome="", seconds=21.0)
    waits = msgspec.structs.replace(found, calls=(*found.calls[:-1], pending))
    check(diagnose_plugin(waits), "busy", ["Allocate for default/rejalloc main has not been answered for 21.0 s"])


def test_plugin_whose_answer_the_node_rejected_says_so() -> None:
    found = recorded("plugin-failing", PluginEvidence)
    wrong = msgspec.structs.replace(
        found.calls[-1], status="OK", error="", outcome="answered 0 containers: pod rejected"
    )
    check(
        diagnose_plugin(msgspec.structs.replace(found, calls=(*found.calls[:-1], wrong))),
        "serves",
        ["the node rejected its last answer to Allocate (default/rejalloc main): answered 0 containers: pod rejected"],
    )


def test_plugin_without_a_first_list_is_silent() -> None:
    view = PluginView("example.com/gpu", "gpu.sock", PLUGIN_SILENT, int((NOW - 5) * 1e9))
    found = diagnose_plugin(PluginEvidence(resource="example.com/gpu", now=NOW, known=True, plugins=(view,)))
    check(found, "silent", ["gpu.sock registered at", "(5.0 s ago)", "has not sent a first list"])


def test_plugin_whose_register_failed_is_rejected() -> None:
    call = CallRecord("gpu", "Register", int(NOW * 1e9), status="INVALID_ARGUMENT", error="bad name")
    check(diagnose_plugin(PluginEvidence(resource="gpu", now=NOW, calls=(call,))), "rejected", ["bad name"])


def test_resource_that_nobody_registered_is_not_registered() -> None:
    found = diagnose_plugin(PluginEvidence(resource="example.com/gpu", now=NOW, socket_since=NOW - 60))
    check(found, "not registered", ["no plugin has registered example.com/gpu since kubelet.sock"])


def test_corrected_word_of_health_is_forgotten() -> None:
    found = recorded("plugin-odd-health", PluginEvidence)
    last = found.calls[-1]
    healed = msgspec.structs.replace(last, reply={"changed": [{"ID": "gpu-2", "health": "Healthy"}]})
    mended = msgspec.structs.replace(found, calls=(*found.calls, healed), unhealthy=())
    assert diagnose_plugin(mended).state == "serves"


def test_driver_states() -> None:
    serves = recorded("driver-serves", DriverEvidence)
    check(diagnose_driver(serves), "serves", ["v1.DRAPlugin", "1 ResourceSlice"])
    assert serves.row is not None
    driver = msgspec.structs.replace(serves.row.driver, connected=False)
    silent = msgspec.structs.replace(serves.row, driver=driver)
    check(diagnose_driver(msgspec.structs.replace(serves, row=silent)), "silent", ["does not answer"])
    gone = msgspec.structs.replace(serves.row, driver=msgspec.structs.replace(driver, endpoints=()))
    check(diagnose_driver(msgspec.structs.replace(serves, row=gone)), "gone", ["its registration socket is gone"])
    check(diagnose_driver(msgspec.structs.replace(serves, row=None)), "not registered", ["no driver of this name"])
    call = CallRecord("gpu.example.com", "NodePrepareResources", 0, seconds=4.0, subject="default/a")
    busy = msgspec.structs.replace(serves, calls=(call,))
    check(diagnose_driver(busy), "busy", ["NodePrepareResources for default/a has not been answered for 4.0 s"])


def test_device_with_a_taint_that_keeps_nobody_away_is_free() -> None:
    found = recorded("device-tainted", DeviceEvidence)
    informed = tuple(taint.replace(":NoExecute", ":None") for taint in found.taints)
    check(diagnose_device(msgspec.structs.replace(found, taints=informed)), "free", ["example.com/maintenance:None"])


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        (
            "device-unknown",
            "unknown",
            ["since", "plugin is not connected", "pod default/sick holds it (container main)"],
        ),
        ("device-odd", "unhealthy", ["sent health 'healthy'", "not exactly `Healthy`", "nobody holds it"]),
        ("device-tainted", "tainted", ["no claim holds it", "example.com/maintenance:NoExecute", "by rule drain-gpus"]),
        ("device-held", "held", ["it is Healthy since", "claim default/gpu-claim-gpu-kznnx (pod gpu-claim) holds it"]),
    ],
)
def test_device_state_names_the_reason(name: str, state: str, words: list[str]) -> None:
    check(diagnose_device(recorded(name, DeviceEvidence)), state, words)


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("claim-unused", "unallocated", ["no pod uses it"]),
        ("claim-unallocated", "unallocated", ["pod default/greedy waits for it", "of 4 devices", "9 are needed"]),
        ("claim-reserved", "reserved", ["allocated to gpu.example.com/vm/gpu-0", "reserved for pods/gpu-claim"]),
        ("claim-deleted", "deletion waiting", ["its deletion was requested at", "waits for pods/user"]),
    ],
)
def test_claim_state_names_the_reason(name: str, state: str, words: list[str]) -> None:
    check(diagnose_claim(recorded(name, ClaimEvidence)), state, words)


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [("node-ready", "ready", ["condition Ready is True since"]), ("node-cordoned", "cordoned", ["spec.unschedulable"])],
)
def test_node_state_names_the_reason(name: str, state: str, words: list[str]) -> None:
    check(diagnose_node(recorded(name, NodeEvidence)), state, words)


@pytest.mark.parametrize(("effect", "state"), [("PreferNoSchedule", "ready"), ("NoSchedule", "tainted")])
def test_node_is_tainted_by_what_pods_must_tolerate(effect: str, state: str) -> None:
    found = recorded("node-ready", NodeEvidence)
    node: Any = {**found.node, "spec": {"taints": [{"key": "a", "value": "b", "effect": effect}]}}
    shown = diagnose_node(msgspec.structs.replace(found, node=node))
    assert (shown.state, shown.evidence[0]) == (state, f"taint a=b:{effect}")


def test_node_names_the_condition_and_the_process() -> None:
    found = recorded("node-ready", NodeEvidence)
    ready, *others = sorted(found.node["status"]["conditions"], key=lambda each: each["type"] != "Ready")
    away = {**ready, "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no status"}
    node = {**found.node, "status": {**found.node["status"], "conditions": [away, *others]}}
    actor = msgspec.structs.replace(found.actors[0], instance="podworker", state="backoff", last_reason="exit code 1")
    dead = msgspec.structs.replace(found, node=node, actors=(actor,))
    words = ["Ready is Unknown since", "NodeStatusUnknown: no status", "process podworker is backoff: exit code 1"]
    check(diagnose_node(dead), "not ready", words)
    full = {**others[0], "status": "True", "reason": "KubeletHasDiskPressure", "message": "disk"}
    node = {**found.node, "status": {**found.node["status"], "conditions": [ready, full]}}
    check(diagnose_node(msgspec.structs.replace(found, node=node)), "under pressure", ["KubeletHasDiskPressure"])


def test_rejected_register_leaves_the_words_of_the_plugin_that_serves() -> None:
    found = recorded("plugin-odd-health", PluginEvidence)
    again = CallRecord(found.resource, "Register", int(NOW * 1e9), status="INVALID_ARGUMENT", error="bad version")
    found = msgspec.structs.replace(found, calls=(*found.calls, again))
    check(diagnose_plugin(found), "odd health", ["'healthy'", "for device gpu-2"])
