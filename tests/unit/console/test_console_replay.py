"""`console --replay`: the screens show a recording at the chosen time, and the slider's keys choose it."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from protocols.messages.calls import CallRecord
from protocols.messages.devices import HEALTHY, UNHEALTHY, DeviceHealth
from protocols.messages.pleg import PLEG_STATE, PlegState, PodLifecycleEvent
from protocols.messages.supervisor import ActorStatus
from protocols.recording import sources
from protocols.recording.frames import Header
from protocols.recording.reader import Recording
from protocols.recording.writer import RecordingWriter
from supervisor.console.drawing.text import plain
from supervisor.console.model.pods import Pod
from supervisor.console.replay.world import overview, world_at
from supervisor.console.replay_app import READ_ONLY, Replay, slider_line, time_at

BEGIN_MS = 1_700_000_000_000
KILLED, SWITCHED, BROKEN, FAR, SECONDS = 30, 40, 45, 55, 60
"""Seconds: the store is killed, PLEG switches, a device breaks, one of the further node breaks, the end."""
NODE = "n-2"
OPEN = 'apiserver_longrunning_requests{group="",resource="pods",verb="WATCH"}'


def status(restarts: int, name: str = "store") -> dict[str, Any]:
    row = msgspec.to_builtins(ActorStatus(name, "control", 7 + restarts, "live", 0.0, restarts, ""))
    row["began_ms"] = BEGIN_MS
    del row["uptime_s"]
    return dict(row)


def pod(phase: str) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": "web", "uid": "u1", "creationTimestamp": "2023-11-14T22:13:20Z"}
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "box"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def further(writer: RecordingWriter, plane: dict[str, Any], second: int, at: int) -> None:
    """Record an API process and metrics of the first node, and a further node."""
    writer.set(sources.ACTORS, "supervisor apiserver-0", status(0, "apiserver-0"), at)
    if second % 10 == 0:
        for instance, samples in (
            ("store", {"nodeplane_store_commits_total": 2.0 * second, "nodeplane_store_revision": 100.0 + second}),
            ("apiserver-0", {OPEN: 3.0}),
        ):
            writer.set(sources.METRICS, instance, {"at_ms": at, "samples": samples}, at)
        calls = {"at_ms": at, "samples": {"kubelet_runtime_operations_total": 5.0 * second}}
        writer.set(f"{NODE}/{sources.METRICS}", "cri", calls, at)
    writer.set(f"{NODE}/{sources.SUPERVISORS}", "supervisor", plane, at)
    writer.set(f"{NODE}/{sources.ACTORS}", "supervisor cri", status(0, "cri"), at)
    writer.happened(f"{NODE}/{sources.LINES}", "cri", f"far {second}", at)
    health = DeviceHealth(resource="example.com/gpu", id="gpu-7", health=UNHEALTHY if second >= FAR else HEALTHY)
    writer.set(f"{NODE}/devices/health", "example.com/gpu gpu-7", msgspec.to_builtins(health), at)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A minute of two nodes: each second a flush, each ten seconds the metrics."""
    path = tmp_path_factory.mktemp("replay") / "plane.npr"
    writer = RecordingWriter(path, Header("1", BEGIN_MS, "n", {}), 4 << 20)
    plane = {"supervisor": "supervisor", "pid": 1, "began_ms": BEGIN_MS, "endpoints": {}}
    for second in range(SECONDS + 1):
        at = BEGIN_MS + second * 1_000
        writer.set(sources.SUPERVISORS, "supervisor", plane, at)
        writer.set(sources.ACTORS, "supervisor store", status(int(second >= KILLED)), at)
        writer.set(sources.USAGE, "store", [float(second), 50.0, False], at)
        writer.set("objects/core/pods", "default/web", pod("Running" if second > 10 else "Pending"), at)
        health = UNHEALTHY if second >= BROKEN else HEALTHY
        value = DeviceHealth(resource="example.com/gpu", id="gpu-0", health=health)
        writer.set("devices/health", "example.com/gpu gpu-0", msgspec.to_builtins(value), at)
        writer.happened(sources.LINES, "store", f"line \x1b[2J{second}", at)
        call = CallRecord("example.com/gpu", "Allocate", at * 1_000_000, number=second + 1, status="OK")
        writer.happened(sources.CALLS, call.peer, msgspec.to_builtins(call), at)
        event = PodLifecycleEvent("u1", "ContainerStarted", f"c{second}")
        writer.happened(sources.LIFECYCLE, "u1", msgspec.to_builtins(event), at)
        mode = PlegState(mode="generic" if second >= SWITCHED else "evented")
        writer.set(f"pleg/{PLEG_STATE}", "state", msgspec.to_builtins(mode), at)
        further(writer, plane, second, at)
        writer.flush(at, 0)
    writer.close()
    return Recording(path)


def test_world_is_that_of_the_time(recording: Recording) -> None:
    history = overview(recording)[1]
    early, late = (world_at(recording, BEGIN_MS + second * 1_000, history) for second in (5, 50))
    assert [each.pods.items["default/web"].phase for each in (early, late)] == ["Pending", "Running"]
    assert [each.house.actors["store"].status.restarts for each in (early, late)] == [0, 1]
    assert [each.house.uptime_s for each in (early, late)] == [5, 50]
    assert [each.now() - BEGIN_MS / 1e3 for each in (early, late)] == [5, 50]
    assert late.house.actors["store"].usage.cpu == 50
    assert len(early.pleg.events) == 6


def test_faults_are_restarts_and_broken_devices(recording: Recording) -> None:
    assert [(each - BEGIN_MS) // 1_000 for each in overview(recording)[0]] == [KILLED, BROKEN, FAR]


def test_rates_and_watches_are_those_of_the_recorded_metrics(recording: Recording) -> None:
    history = overview(recording)[1]
    early, late = (world_at(recording, BEGIN_MS + second * 1_000, history) for second in (9, 50))
    assert "store commits" not in early.timeline.rates
    assert late.timeline.rates["store commits"].last() == 2
    assert len([value for value in late.timeline.rates["store commits"].values(late.now()) if value]) == 5
    assert (late.house.notes["store"], late.house.notes["apiserver-0"]) == ("rev 150", "3w")


def test_world_of_a_further_node_is_its_own(recording: Recording) -> None:
    world = world_at(recording, recording.end_ms, overview(recording)[1], NODE)
    assert list(world.house.actors) == ["cri"]
    assert [each.id for each in world.devices.health.values()] == ["gpu-7"]
    assert world.timeline.rates["runtime calls"].last() == 5
    assert "store commits" not in world.timeline.rates
    assert world.pods.items["default/web"].phase == "Running"


def test_modes_and_latencies_of_pleg_are_those_of_their_times(recording: Recording) -> None:
    pleg = world_at(recording, recording.end_ms, overview(recording)[1]).pleg
    assert [((switch.at - BEGIN_MS / 1e3), switch.mode) for switch in pleg.switches] == [
        (0, "evented"),
        (SWITCHED, "generic"),
    ]
    assert pleg.state.mode == "generic"
    assert pleg.latency.quantile(0.5, recording.end_ms / 1e3) == 11  # ContainerStarted at 0 s, Running at 11 s


def test_slider_shows_time_place_and_faults() -> None:
    line = plain(slider_line((0, 100_000, 50_000), [0, 99_999], False, 80))
    assert line.count("✗") == 2
    assert "█" in line
    assert "+50 s of 100 s" in line
    assert len(line) <= 80


def test_time_at_a_column_is_the_one_that_the_slider_shows_there() -> None:
    line = slider_line((0, 100_000, 50_000), [], False, 80)
    first, last = plain(line).index("─"), plain(line).rindex("─")
    assert [time_at(line, 0, 100_000, column) for column in (first, last)] == [0, 100_000]
    assert [time_at(line, 0, 100_000, column) for column in (first - 1, last + 1)] == [None, None]


@pytest.fixture
async def pilot(recording: Recording) -> AsyncIterator[Pilot[None]]:
    app = Replay(recording, recording.end_ms)
    async with app.run_test(size=(100, 30)) as pilot:
        yield pilot


def second(pilot: Pilot[None]) -> int:
    assert isinstance(pilot.app, Replay)
    return (pilot.app.at_ms - BEGIN_MS) // 1_000


def shown(pilot: Pilot[None]) -> str:
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def test_keys_move_through_the_recording_on_every_screen(pilot: Pilot[None]) -> None:
    for keys, at in (
        (("comma",), 59),
        (("full_stop", "full_stop"), 60),
        (("shift+left",), 59),
        (("left_square_bracket",), 49),
        (("3", "right_square_bracket"), 59),
        (("less_than_sign",), 0),
        (("left_square_bracket",), 0),
        (("greater_than_sign",), 60),
    ):
        await pilot.press(*keys)
        assert second(pilot) == at, keys
        await pilot.pause(0.05)
        assert f"+{at} s of 60 s" in shown(pilot)


async def test_click_on_the_slider_shows_the_time_there(pilot: Pilot[None]) -> None:
    await pilot.pause(0.05)
    column = shown(pilot).splitlines()[-2].index("─")
    await pilot.click("#slider", offset=(column, 0))
    await pilot.pause(0.05)
    assert second(pilot) == 0


async def test_pods_of_the_time_are_shown_and_nothing_can_be_changed(pilot: Pilot[None]) -> None:
    await pilot.press("3")
    await pilot.pause(0.05)
    assert "Running" in shown(pilot)
    assert "read-only" in shown(pilot)
    await pilot.press("less_than_sign")
    await pilot.pause(0.05)
    assert "Pending" in shown(pilot)
    await pilot.press("1", "k", "r", "3", "d", "enter", "d")
    await pilot.pause(0.05)
    assert len(pilot.app.screen_stack) == 2, "the pod's page, and no question"
    assert "delete" not in shown(pilot).splitlines()[-1]
    assert [notification.message for notification in pilot.app._notifications] == [READ_ONLY] * 4
    await pilot.press("k", "r")
    assert len(pilot.app._notifications) == 4, "this page has no such key"


async def test_play_goes_on_until_the_end(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Replay)
    app.seek(BEGIN_MS + 58_000)
    await pilot.press("space")
    for _ in range(3):
        app._tick()
    assert (second(pilot), app.playing) == (60, False)


async def test_pages_of_a_pod_and_of_an_actor_are_read_from_the_recording(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Replay)
    web: Pod = app.world.pods.items["default/web"]
    assert (await app.why_of(web))[0].startswith("pod/default/web: ")
    assert await app.events_of(web) == []
    assert (await app.log_of(web, "main")).startswith("(no log: ")
    assert (await app.trace_of(web))[0] == []
    app.seek(BEGIN_MS + 2_000)
    assert app.tail_of("store", 2) == ["line \\x1b[2J1", "line \\x1b[2J2"]


async def test_key_shows_the_further_node_at_the_same_time(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Replay)
    app.seek(BEGIN_MS + 50_000)
    await pilot.press("n")
    assert (app.node, second(pilot), list(app.world.house.actors)) == (NODE, 50, ["cri"])
    assert app.tail_of("cri", 1) == ["far 50"]
    await pilot.press("comma", "n")
    assert (app.node, second(pilot), app.tail_of("cri", 1)) == ("", 49, [])


async def test_calls_are_those_until_the_shown_time(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Replay)
    following = app.calls_of("example.com/gpu")
    first = await anext(following)
    assert [record.number for record in first.records] == list(range(1, SECONDS + 2))
    app.seek(BEGIN_MS + 2_000)
    then = await anext(following)
    assert ([record.number for record in then.records], then.restarted) == ([1, 2, 3], True)
    await pilot.press("n")
    assert (await anext(following)).records == (), "the further node has no such plugin"
