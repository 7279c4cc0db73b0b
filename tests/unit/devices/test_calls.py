"""The record of calls: what it holds of hostile messages, what it hides, and how it is printed."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.calls.health import HealthChange, HealthDifference
from actors.devices.calls.lists import list_report
from actors.devices.calls.log import MAX_FOLLOWERS, MAX_PEER, CallLog, CallPeer, Purpose, StreamMessage
from actors.devices.calls.outcomes import allocated, preference_outcome
from actors.devices.calls.ring import CALL_BYTES, CALLS, MAX_PEERS, REPORT_BYTES, REPORTS, Rings
from actors.devices.model.errors import PluginFailed, TooManyFollowers
from actors.devices.plugins.plugin import MAX_WORD, devices_of
from protocols.bus import Bus, DeadlineExceeded
from protocols.lifecycle.devices.types import PluginDevice
from protocols.messages.calls import HIDDEN, CallRecord, CallsReply, CallsRequest
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.plugins import ALLOCATE, LIST_AND_WATCH, REGISTER
from protocols.wire.rendering import MAX_CHARACTERS, MAX_ITEMS, Renderer, reveal
from supervisor.calls import client
from supervisor.calls.client import CallBatch, CallReader
from supervisor.calls.command import FollowPrinter
from supervisor.calls.repeats import REPEAT_S, RepeatFilter
from supervisor.calls.text import record_lines
from tests.unit.supervisor.test_terminal import terminal_for

GPU = "example.com/gpu"


def allocation(**envs: str) -> pb.AllocateResponse:
    return pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(envs=envs)])


async def served(log: CallLog, peer: str = "", *, show_secrets: bool = False) -> list[CallRecord]:
    return [*(await log.serve(CallsRequest(peer=peer, show_secrets=show_secrets))).records]


@given(st.dictionaries(st.text(max_size=300), st.text(max_size=300), max_size=80))
def test_rendering_hides_every_value_of_an_environment_and_reveals_it_on_request(envs: dict[str, str]) -> None:
    renderer = Renderer()
    shown = renderer.message(allocation(**envs), ("reply",))
    hidden = shown["container_responses"][0].get("envs", {})
    assert set(hidden.values()) <= {HIDDEN}
    assert len(hidden) == min(len(envs), MAX_ITEMS)
    record = {"reply": shown}
    reveal(record, renderer.secrets)
    assert all(envs[name].startswith(value) for name, value in hidden.items() if name in envs)


@pytest.mark.parametrize(
    "message",
    [
        allocation(A="x" * (4 << 20)),
        allocation(**{f"V{number}": "x" * 4096 for number in range(1024)}),
        pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["d" * 1024] * 9999)]),
        pb.AllocateResponse(
            container_responses=[pb.ContainerAllocateResponse(mounts=[pb.Mount(host_path="p" * 4000)] * 99)] * 99
        ),
    ],
)
def test_rendering_of_a_hostile_message_is_bounded(message: pb.AllocateResponse) -> None:
    renderer = Renderer()
    shown = renderer.message(message, ("reply",))
    secrets = sum(len(value) for _, value in renderer.secrets)
    assert len(msgspec.json.encode(shown)) + secrets < 4 * MAX_CHARACTERS
    assert renderer.omitted
    assert len(renderer.omitted) < 400


peers = st.sampled_from(["", "a", "b", *(f"peer-{number}" for number in range(3 * MAX_PEERS))])


@given(st.lists(st.tuples(peers, st.integers(0, 20_000), st.booleans(), st.booleans()), max_size=200))
def test_rings_stay_within_their_bounds_and_in_order(added: list[tuple[str, int, bool, bool]]) -> None:
    rings = Rings()
    for peer, size, report, known in added:
        rings.add(CallRecord(peer, "Allocate", 1, error="x" * size), [], report=report, known=known)
    assert rings.newest == len(added)
    assert len(rings._peers) <= MAX_PEERS
    assert rings.size == sum(entry.size for pair in rings._peers.values() for ring in pair for entry in ring.after(0))
    for calls, reports in rings._peers.values():
        assert (calls.size <= CALL_BYTES, reports.size <= REPORT_BYTES) == (True, True)
        assert (len([*calls.after(0)]) <= CALLS, len([*reports.after(0)]) <= REPORTS) == (True, True)
    numbers, after, more = [], 0, True
    while more:
        page, more = rings.page("", after)
        numbers += [entry.number for entry in page]
        after = numbers[-1] if numbers else 0
    assert numbers == sorted(set(numbers))


async def test_lists_of_a_chatty_plugin_displace_no_calls() -> None:
    log, peer = CallLog(), CallPeer(GPU)
    with log.call(peer, ALLOCATE) as call:
        call.asked(pb.AllocateRequest())
    for number in range(3 * REPORTS):
        log.report(peer, LIST_AND_WATCH, list_report([], [PluginDevice(str(number), True)]))
    methods = [record.method for record in await served(log, GPU)]
    assert methods == ["Allocate", *["ListAndWatch"] * REPORTS]


async def test_equal_lists_are_counted_and_their_record_moves_on() -> None:
    log, peer = CallLog(), CallPeer(GPU)
    devices = [PluginDevice("a", True)]
    for before in (None, devices, devices, devices):
        log.report(peer, LIST_AND_WATCH, list_report(before, devices))
    first, same = await served(log)
    assert (first.times, same.times, same.number) == (1, 3, 4)
    assert (same.reply, same.outcome) == ({"devices": 1, "healthy": 1}, "nothing changed")


async def test_failed_call_states_the_consequence_for_its_pod() -> None:
    log = CallLog()
    purpose = Purpose("ns/pod main", "pod rejected")
    with suppress(PluginFailed), log.call(CallPeer(GPU), ALLOCATE, purpose=purpose) as call:
        call.asked(pb.AllocateRequest())
        call.answered(pb.AllocateResponse())
        raise PluginFailed("too many bytes")
    [record] = await served(log)
    assert record.outcome == "too many bytes: pod rejected"
    assert (record.subject, record.status) == ("ns/pod main", "OK")


async def test_cancelled_call_is_recorded_as_cancelled() -> None:
    log = CallLog()
    with pytest.raises(asyncio.CancelledError), log.call(CallPeer(GPU), ALLOCATE):
        raise asyncio.CancelledError
    assert [record.status for record in await served(log)] == ["CANCELLED"]


async def test_names_that_never_registered_share_one_ring() -> None:
    log = CallLog()
    for number in range(10 * MAX_PEERS):
        with log.call(CallPeer(f"no-domain-{number}", known=False), REGISTER, incoming=True):
            pass
    assert [record.peer for record in await served(log, "no-domain-639")] == ["no-domain-639"]
    assert len(log._rings._peers) == 1


async def test_names_are_bounded_and_fit_the_longest_resource() -> None:
    log, resource = CallLog(), f"{'d' * 244}.example/{'n' * 63}"
    for name in (resource, "x" * 10_000):
        with log.call(CallPeer(name, "s" * 10_000), REGISTER, incoming=True):
            pass
    first, second = await served(log)
    assert (first.peer, len(second.peer), len(second.socket)) == (resource, MAX_PEER, MAX_PEER)


async def test_secrets_leave_the_log_only_on_request() -> None:
    log = CallLog()
    with log.call(CallPeer(GPU), ALLOCATE) as call:
        call.answered(allocation(TOKEN="s3cret"))
    assert "s3cret" not in str(await served(log))
    [record] = await served(log, show_secrets=True)
    assert record.reply == {"container_responses": [{"envs": {"TOKEN": "s3cret"}}]}


async def test_followers_beyond_the_bound_are_rejected() -> None:
    log = CallLog()
    waiting = [asyncio.create_task(log.serve(CallsRequest(wait=9.0))) for _ in range(MAX_FOLLOWERS)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyFollowers):
        await log.serve(CallsRequest(wait=9.0))
    log.report(CallPeer(GPU), LIST_AND_WATCH, StreamMessage("over"))
    replies = await asyncio.gather(*waiting)
    assert {len(reply.records) for reply in replies} == {1}
    assert log._waiting == set()


async def test_position_of_another_incarnation_starts_anew() -> None:
    log = CallLog()
    log.report(CallPeer(GPU), LIST_AND_WATCH, StreamMessage("over"))
    assert len((await log.serve(CallsRequest(incarnation=1, after=99))).records) == 1


def test_difference_of_lists_names_added_removed_and_changed_devices() -> None:
    before = [PluginDevice("a", True), PluginDevice("b", True), PluginDevice("c", True)]
    now = [PluginDevice("b", False, (1,)), PluginDevice("c", True), PluginDevice("d", True)]
    assert list_report(before, now).content == {
        "devices": 3,
        "healthy": 2,
        "added": [{"ID": "d", "health": "Healthy"}],
        "removed": [{"ID": "a"}],
        "changed": [{"ID": "b", "health": "Unhealthy", "numa": [1]}],
    }


def test_health_word_of_its_own_is_shown_as_it_was_sent() -> None:
    sent = pb.ListAndWatchResponse(devices=[pb.Device(ID="a", health="healthy"), pb.Device(ID="b", health="Healthy")])
    sent.devices.add(ID="c", health="x" * 1000)
    report = list_report(None, devices_of(sent.SerializeToString()))
    shown = [item["health"] for item in report.content["added"]]
    assert shown == ["healthy", "Healthy", "x" * MAX_WORD]
    assert report.outcome == "capacity 3, allocatable 1; 2 devices are unhealthy: 'healthy' is not exactly 'Healthy'"
    assert [device.word for device in devices_of(pb.ListAndWatchResponse(devices=[{"ID": "d"}]).SerializeToString())]


def test_difference_of_health_counts_what_it_does_not_show() -> None:
    difference = HealthDifference()
    difference.add(100, [HealthChange("p", str(number), "Healthy", "") for number in range(100)])
    report = difference.report([("p", "gone")])
    assert (report.outcome, len(report.content["changed"])) == ("101 devices changed", MAX_ITEMS)
    assert report.renderer.omitted == {"reply.changed": 100 - MAX_ITEMS}
    assert report.content["removed"] == ["p/gone"]


def test_outcomes_of_answers_with_a_wrong_number_of_containers_and_foreign_ids() -> None:
    assert allocated(0) == "answered 0 containers for a request of 1: pod rejected"
    assert allocated(2).endswith("the first is granted, the others are ignored")
    words = preference_outcome(["g", "alien", "g"], ["g", "h"], 2)
    assert words == (
        "answered 1 of the offered devices for a size of 2: the node adds the rest; "
        "ignored, since they were not offered: alien"
    )


def test_lines_show_what_was_left_out_and_deadlines() -> None:
    record = CallRecord(
        GPU, "Allocate", 0, number=1, seconds=0.0012, deadline=30.0, status="OK", subject="ns/pod main",
        request={"devices_ids": ["a", "b"]}, reply={"envs": {"A": HIDDEN}}, omitted={"request.devices_ids": 7},
        outcome="granted", times=2,
    )  # fmt: skip
    head, sent, answered, outcome = record_lines(record)
    assert head.endswith(f"{GPU}  ->  Allocate  ns/pod main  OK  1.2 ms of 30 s  (2 times)")
    assert sent.split(None, 1) == ["sent", "devices_ids=[a, b +7 more]"]
    assert answered.split(None, 1) == ["answered", "envs={A=(hidden)}"]
    assert outcome.split(None, 1) == ["outcome", "granted"]


def test_terminal_shows_the_status_of_a_call_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    failed = CallRecord("[b]x", "Allocate", 0, number=1, status="INTERNAL", error="[red]no room")
    FollowPrinter("text").show(CallBatch((failed,), ()))
    written = terminal.getvalue()
    assert "\x1b[1;31mINTERNAL" in written
    assert "[b]x" in written
    assert "[red]no room" in written


def test_printed_lines_escape_control_characters_of_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    printer = FollowPrinter("text")
    record = CallRecord(
        "a\x1b[2J", "Allocate\nOK", 0, number=1, status="OK", error="e\nforged", reply={"x": "\x9b\u202e"}
    )
    slow = CallRecord(GPU, "Allocate", 5, seconds=2.0, deadline=30.0)
    printer.show(CallBatch((record,), (slow,)))
    printer.show(CallBatch((), (slow,)))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 4  # head, answer and error of the record; the call in progress once
    assert out.count("in progress for 2.0 s of 30 s") == 1


async def test_names_that_are_not_unicode_are_recorded() -> None:
    log = CallLog()
    socket = "/plugins_registry/\udcff.sock"
    with suppress(PluginFailed), log.call(CallPeer("\udcff.sock", socket, known=False), ALLOCATE):
        raise PluginFailed(f"no process listens at {socket}")
    log.report(CallPeer(GPU, socket), LIST_AND_WATCH, StreamMessage("over", error=socket))
    first, second = await served(log)
    assert (first.peer, first.socket) == ("\\udcff.sock", "/plugins_registry/\\udcff.sock")
    assert second.error == first.socket


def test_follower_shows_equal_messages_once_a_minute_with_their_count(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    printer = FollowPrinter("text", lambda: now)
    same = CallRecord(GPU, "ListAndWatch", 0, "a.sock", status="OK", incoming=True, outcome="nothing changed")

    def shown(*records: CallRecord) -> list[str]:
        printer.show(CallBatch(records, ()))
        return [line.split()[-2].strip("(") for line in capsys.readouterr().out.splitlines() if " <- " in line]

    def repeated(times: int) -> CallRecord:
        return msgspec.structs.replace(same, number=times, began_ns=times, times=times)

    assert shown(repeated(1), repeated(2)) == ["ListAndWatch"]
    assert shown(repeated(3)) == []
    now = REPEAT_S
    assert shown() == ["3"]
    other = msgspec.structs.replace(same, number=9, outcome="capacity 2, allocatable 2")
    assert shown(repeated(4), other, repeated(5)) == ["4", "ListAndWatch", "5"]
    assert shown(repeated(6)) == []
    printer.close()
    assert "(6 times)" in capsys.readouterr().out


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=30))
def test_follower_misses_no_message_that_differs(runs: list[tuple[str, int]]) -> None:
    repeats = RepeatFilter()
    sent = [CallRecord(GPU, "ListAndWatch", 0, outcome=name, times=1 + at) for name, n in runs for at in range(n)]
    shown = [record for each in sent for record in repeats.add(each, 0.0)] + [*repeats.rest(0.0)]
    assert [record.outcome for record in shown if record.times == 1] == [name for name, _ in runs]
    last = [record.times for at, record in enumerate(shown) if at + 1 == len(shown) or shown[at + 1].times == 1]
    assert last == [count for _, count in runs]


def test_json_has_the_time_with_its_zone(capsys: pytest.CaptureFixture[str]) -> None:
    FollowPrinter("json").show(CallBatch((CallRecord(GPU, "Allocate", 1_767_225_600_123_000_000, number=1),), ()))
    shown = msgspec.json.decode(capsys.readouterr().out)
    assert datetime.fromisoformat(shown["time"]) == datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)
    assert (shown["peer"], shown["number"]) == (GPU, 1)


class HungOnce:
    """A bus on which the device manager does not answer the first request."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, *_: object, **__: object) -> CallsReply:
        self.calls += 1
        if self.calls == 1:
            raise DeadlineExceeded("no answer in 11 s")
        return CallsReply(1, 7)


async def test_follower_waits_for_a_device_manager_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RECONNECT_S", 0.0)
    batches = CallReader(cast(Bus, HungOnce())).follow()
    assert await anext(batches) == CallBatch((), ())
