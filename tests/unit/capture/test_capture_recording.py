"""What is recorded of calls between a kubelet and a plugin or driver; integration tests stand between real ones."""

from typing import Any

import pytest

from protocols.messages.calls import CallRecord
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire import drahealth_v1_pb2 as health
from protocols.wire import nodehealth_v1alpha1_pb2 as node_health
from protocols.wire.plugins import (
    ALLOCATE,
    GET_INFO,
    HEALTH_V1,
    LIST_AND_WATCH,
    WATCH_DEVICES_STATUS,
    WATCH_RESOURCES,
)
from supervisor.calls.sent import Sent
from supervisor.capture import recording
from supervisor.capture.recording import Recording, message_of


def listed(**words: str) -> bytes:
    return pb.ListAndWatchResponse(
        devices=[pb.Device(ID=id, health=word) for id, word in words.items()]
    ).SerializeToString()


def test_lists_are_recorded_as_their_differences() -> None:
    first, seen = message_of(LIST_AND_WATCH, listed(a="Healthy", b=""), {})
    assert first["added"] == [{"ID": "a", "health": "Healthy"}, {"ID": "b", "health": "(empty)"}]
    second, seen = message_of(LIST_AND_WATCH, listed(b="Healthly", c="Healthy"), seen)
    assert second == {
        "devices": 2,
        "added": [{"ID": "c", "health": "Healthy"}],
        "changed": [{"ID": "b", "health": "Healthly"}],
        "removed": [{"ID": "a"}],
    }
    assert message_of(LIST_AND_WATCH, b"\xff", seen) == ({}, seen)
    assert message_of(LIST_AND_WATCH, listed(b="Healthly", c="Healthy"), seen)[0] == {"devices": 2}


def test_health_of_devices_that_a_message_leaves_out_stays() -> None:
    def reported(name: str, word: int) -> bytes:
        item = health.DeviceHealth(health=word, message="hot")  # type: ignore[arg-type]  # any number may come
        item.device.pool_name, item.device.device_name = "n1", name
        return health.NodeWatchResourcesResponse(devices=[item]).SerializeToString()

    method = WATCH_RESOURCES[HEALTH_V1]
    _, seen = message_of(method, reported("a", 2), {})
    content, seen = message_of(method, reported("b", 9), seen)
    assert [(each["device_name"], each["health"]) for each in content["changed"]] == [("b", "Unknown")]
    assert message_of(method, reported("a", 2), seen)[0] == {"devices": 1}


def test_health_after_a_silence_is_recorded_as_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    item = health.DeviceHealth(health=health.HEALTHY, health_check_timeout_seconds=5)
    item.device.pool_name, item.device.device_name = "n1", "a"
    raw = health.NodeWatchResourcesResponse(devices=[item]).SerializeToString()
    seen: recording.Seen = {}
    found = []
    for now in (0.0, 4.0, 9.5):
        monkeypatch.setattr("supervisor.capture.recording.time.monotonic", lambda now=now: now)
        content, seen = message_of(WATCH_RESOURCES[HEALTH_V1], raw, seen)
        found.append([(each["timeout"], each.get("before")) for each in content.get("changed", ())])
    assert found == [[(5, None)], [], [(5, "Unknown")]]


def test_complete_lists_of_node_health_are_recorded_as_their_differences() -> None:
    def statuses(**words: str) -> bytes:
        devices = [node_health.Device(pool_name="n1", device_name=id, health=word) for id, word in words.items()]
        return node_health.DevicesStatusResponse(devices=devices).SerializeToString()

    first, seen = message_of(WATCH_DEVICES_STATUS, statuses(a="Healthy", b="odd"), {})
    assert [(each["device_name"], each["health"]) for each in first["changed"]] == [("a", "Healthy"), ("b", "odd")]
    assert message_of(WATCH_DEVICES_STATUS, statuses(b="odd"), seen)[0] == {"devices": 1, "removed": ["n1/a"]}


def message(at: int, **reply: Any) -> CallRecord:
    return CallRecord("r", "ListAndWatch", at, status="OK", incoming=True, reply={"devices": 1, **reply})


def test_equal_messages_are_counted_and_a_full_record_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_RECORDS", 2)
    found = Recording()
    for record in (message(1), message(2), message(3, added=[]), message(4)):
        found.add(record)
    assert [(each.began_ns, each.times) for each in found.records] == [(2, 2), (3, 1)]
    assert found.left_out == 1
    monkeypatch.setattr(recording, "MOST_BYTES", 10)
    found = Recording()
    found.add(message(1))
    assert (found.records, found.left_out) == ([], 1)


def test_calls_are_recorded_with_their_variables_and_getinfo_once_it_is_accepted() -> None:
    reply = pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(envs={"X": "secret"})])
    sent = Sent(ALLOCATE, "r", "p.sock", b"\xff", reply=reply.SerializeToString())
    record = sent.record()
    assert (record.request, record.reply) == ({}, {"container_responses": [{"envs": {"X": "secret"}}]})
    found = Recording()
    for socket in ("/a", "/b"):
        found.add(Sent(GET_INFO, "d", socket, b"", reply=GET_INFO.reply(type="DRAPlugin").SerializeToString()).record())
    found.accepted("/a")
    assert [each.outcome for each in found.records] == ["accepted as DRAPlugin", ""]
