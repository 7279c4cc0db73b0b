"""The console's model: rates and lags, restarts, tiles, plots, metrics, and texts of plugins, also of large planes."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from protocols.messages.devices import (
    HEALTHY,
    UNHEALTHY,
    AllocatedDevice,
    ContainerAllocation,
    Device,
    DeviceHealth,
    PluginView,
    PodAllocation,
    ResourceInventory,
)
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from protocols.messages.supervisor import ActorStatus, FollowedStream, Heartbeat, OwnedStream, PlaneStatus
from protocols.process.layout import layout
from protocols.recording.samples import NAMES, SERVER_NAMES, names_of, samples
from supervisor.console.drawing import picture, text, tiles
from supervisor.console.feed import supervisors
from supervisor.console.feed.api import Api
from supervisor.console.model.devices import DEVICES_WITH_HISTORY, HISTORY, DeviceReplicas, SliceDevice
from supervisor.console.model.history import POINTS, SAMPLES, Latencies, Rate, Series, plot
from supervisor.console.model.metrics import Page, bucket_quantile
from supervisor.console.model.plane import RED_S, ActorUsage, House, links
from supervisor.console.model.pleg import DELETED, EVENTS, STATUS_S, WAITING, Pleg
from supervisor.console.model.pods import PodReplicas, pod_of
from supervisor.console.model.watch import WatchPage
from supervisor.console.model.world import COUNTERS, QUANTILES, SERVER_COUNTER, World

ESCAPE = "\x1b[31mred\x1b[0m\n[bold]gpu[/bold]\u202e"


def actor(
    name: str, group: str = "node", state: str = "live", pid: int = 1, beat: Heartbeat | None = None
) -> ActorStatus:
    return ActorStatus(name, group, pid, state, 1.0, 0, "", beat)


def beat(
    name: str, owns: tuple[OwnedStream, ...] = (), follows: tuple[FollowedStream, ...] = (), epoch: int = 1
) -> Heartbeat:
    return Heartbeat(name, 1, epoch, "ready", owns=owns, follows=follows)


def plane(*actors: ActorStatus) -> PlaneStatus:
    return PlaneStatus("supervisor", 1, 1.0, actors, {})


def pair(seq: int, followed: int, epoch: int = 1, follower_epoch: int = 1) -> PlaneStatus:
    owner = beat("cri", owns=(OwnedStream("container-events", seq, 0),), epoch=epoch)
    follower = beat("pleg", follows=(FollowedStream("cri", "container-events", follower_epoch, followed, 0, True),))
    return plane(actor("cri", beat=owner), actor("pleg", beat=follower))


def test_flow_of_moving_stream_has_rate_lag_and_light() -> None:
    house = House()
    house.update(pair(0, 0), 100.0)
    house.update(pair(50, 10), 105.0)
    (flow,) = house.flows()
    assert (flow.rate, flow.lag, flow.lit) == (10.0, 20, True), "20 of the 40 are what two seconds carry"
    house.update(pair(50, 50), 110.0)
    (flow,) = house.flows()
    assert (flow.rate, flow.lag, flow.lit) == (0.0, 0, False)
    assert links(house.flows())["cri", "pleg"].synced


def test_revisions_younger_than_a_heartbeat_are_no_lag() -> None:
    house, found = House(), []
    for now, mark, followed in ((100.0, 100, 100), (101.0, 140, 100), (102.5, 180, 140), (105.0, 180, 140)):
        owner = beat("watchcache", owns=(OwnedStream("objects/core/pods", 0, mark),))
        follows = (FollowedStream("watchcache", "objects/core/pods", 1, 0, followed, True),)
        house.update(plane(actor("watchcache", beat=owner), actor("api", beat=beat("api", follows=follows))), now)
        found.append(house.flows()[0].mark_lag)
    assert found == [0, 0, 0, 40], "only the last one is older than two seconds"


def test_flow_after_restart_of_its_owner_starts_anew() -> None:
    house = House()
    house.update(pair(1000, 1000), 100.0)
    house.update(pair(1, 1000, epoch=2), 105.0)
    (flow,) = house.flows()
    assert flow.rate == 0.0
    assert flow.lag == 1


def test_death_and_return_of_an_actor_give_the_time_it_took() -> None:
    house = House()
    house.update(plane(actor("pleg", pid=1)), 100.0)
    house.died("pleg", 100.5)
    assert not house.settled
    assert house.red(house.actors["pleg"])
    house.update(plane(actor("pleg", state="starting", pid=2)), 100.6)
    house.update(plane(actor("pleg", pid=2)), 101.0)
    assert house.actors["pleg"].took_s == pytest.approx(0.5)
    assert house.red(house.actors["pleg"])
    house.update(plane(actor("pleg", pid=2)), 101.0 + RED_S)
    assert not house.red(house.actors["pleg"])


def test_stopped_actor_that_goes_on_was_not_restarted() -> None:
    house = House()
    house.update(plane(actor("pleg", pid=1)), 100.0)
    house.update(plane(actor("pleg", state="hung", pid=1)), 106.0)
    house.update(plane(actor("pleg", pid=1)), 107.0)
    assert house.actors["pleg"].took_s is None


def test_lost_supervisor_leaves_the_last_picture_with_a_reason() -> None:
    house = House()
    house.update(pair(0, 0), 1.0)
    house.lost("it does not answer")
    assert house.failure
    assert set(house.actors) == {"cri", "pleg"}


NODE = ("runtime", "cri", "pleg", "devices", "podworker", "health", "frontdoor")


def whole(servers: int = 1) -> House:
    house = House()
    control = [actor(name, "control") for name in ("store", "watchcache", "scheduler", "controllers")]
    watchers = [actor(f"apiserver-{number}", "watcher") for number in range(servers)]
    house.update(plane(*control, *watchers, *(actor(name) for name in NODE)), 1.0)
    house.measured({name: ActorUsage(123.4, 5678.9) for name in house.actors}, 1.0)
    return house


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("servers", [1, 4, 64])
def test_picture_never_exceeds_its_width_and_shows_all(width: int, servers: int) -> None:
    house = whole(servers)
    lines = [text.plain(line) for line in picture.draw(house, picture.Look(width=width, chosen="pleg"))]
    assert max(map(len, lines)) <= width
    joined = "\n".join(lines)
    assert all(name in joined for name in house.actors)


def test_picture_of_a_foreign_store_and_runtime_names_them() -> None:
    house = House()
    house.update(plane(actor("watchcache", "control"), actor("cri"), actor("node-2")), 1.0)
    joined = "\n".join(text.plain(line) for line in picture.draw(house, picture.Look(width=80)))
    assert all(word in joined for word in ("etcd", "outside", "node-2"))


@pytest.mark.parametrize("number", ["\N{SUPERSCRIPT TWO}", "9" * 5000])
def test_picture_of_a_recording_with_an_odd_name_is_drawn(number: str) -> None:
    house = House()
    house.update(plane(actor(f"apiserver-{number}", "watcher")), 1.0)
    assert picture.draw(house, picture.Look(width=80))


PICTURE = """\
┌─apiserver-0───┐
│live 123% 5679M│
│1            ↻0│
└28w────────────┘

┌─store─────────┐    ┌─watchcache────┐    ┌─scheduler─────┐    ┌─controllers───┐
│live 123% 5679M│    │live 123% 5679M│    │live 123% 5679M│    │live 123% 5679M│
│1            ↻0│    │1            ↻0│    │1            ↻0│    │1            ↻0│
└rev 42─────────┘    └───────────────┘    └───────────────┘    └───────────────┘
┌─runtime───────┐    ┌─cri───────────┐    ╔═pleg══════════╗    ┌─podworker─────┐
│live 123% 5679M│    │live 123% 5679M│    ║dead           ║    │live 123% 5679M│
│1            ↻0│    │1            ↻0│    ║-            ↻0║    │1            ↻0│
└───────────────┘    └───────────────┘    ╚═══════════════╝    └───────────────┘
┌─frontdoor─────┐    ┏━devices━━━━━━━┓    ┌─health────────┐     ▲ cri 0/s
│live 123% 5679M│    ┃live 123% 5679M┃    │live 123% 5679M│     ▲ devices 0/s
│1            ↻0│    ┃1            ↻0┃    │1            ↻0│     ▲ health 0/s
└───────────────┘    ┗━━━━━━━━━━━━━━━┛    └───────────────┘     ▼ node 0/s
"""


def test_picture_of_80_columns_looks_like_this() -> None:
    house = whole()
    house.notes = {"apiserver-0": "28w", "store": "rev 42"}
    house.died("pleg", 2.0)
    lines = picture.draw(house, picture.Look(width=80, chosen="devices"))
    assert "".join(f"{text.plain(line).rstrip()}\n" for line in lines) == PICTURE


def test_line_of_an_actor_is_where_its_box_begins() -> None:
    house = whole(9)
    lines = [text.plain(line) for line in picture.draw(house, picture.Look(width=80))]
    for name in house.actors:
        assert name in lines[picture.line_of(house, name)]


def test_picture_dead_actor_differs_without_colours() -> None:
    house = whole()
    house.died("pleg", 2.0)
    joined = "\n".join(text.plain(line) for line in picture.draw(house, picture.Look(width=80)))
    assert "╔═pleg" in joined
    assert "dead" in joined


def test_neighbour_goes_over_gaps_and_stays_at_edges() -> None:
    house = whole()
    rows = picture.grid(house)
    assert picture.neighbour(rows, "apiserver-0", 0, 1, house.actors) == "store"
    assert picture.neighbour(rows, "store", 1, 0, house.actors) == "watchcache"
    assert picture.neighbour(rows, "podworker", 0, 1, house.actors) == "health"
    assert picture.neighbour(rows, "store", -1, 0, house.actors) == "store"
    assert picture.neighbour(rows, "gone", 1, 0, house.actors) == "apiserver-0"


@given(st.text(), st.integers(0, 60))
def test_pad_is_printable_and_as_wide_as_asked(value: str, width: int) -> None:
    shown = text.pad(value, width)
    assert shown.isprintable()
    assert cell_len(shown) == width
    assert cell_len(text.cut(value, width)) <= width


def test_cut_escapes_control_and_direction_characters() -> None:
    shown = text.cut(ESCAPE, 200)
    assert shown == "\\x1b[31mred\\x1b[0m\\n[bold]gpu[/bold]\\u202e"


def big_devices(count: int, pods: int) -> DeviceReplicas:
    model = DeviceReplicas()
    devices = tuple(Device("example.com/gpu", f"gpu-{number}", (number % 2,)) for number in range(count))
    model.inventory = {"example.com/gpu": ResourceInventory("example.com/gpu", True, devices)}
    model.health = {f"example.com/gpu {d.id}": DeviceHealth("example.com/gpu", d.id, HEALTHY) for d in devices}
    model.plugins = {"example.com/gpu 1": PluginView("example.com/gpu", "gpu.sock", "serves")}
    model.allocations = {
        str(number): PodAllocation(
            str(number), "default", f"pod-{number}",
            (ContainerAllocation("main", devices=(AllocatedDevice("example.com/gpu", f"gpu-{number}"),)),),
        )
        for number in range(pods)
    }  # fmt: skip
    return model


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (60, "admissionregistration.k8s.io/mutatingwebhookconfigurations"),
        (30, "mutatingwebhookconfigurations"),
        (22, "mutatingweb…igurations"),
        (1, "…"),
    ],
)
def test_long_resource_keeps_both_ends_of_its_name(width: int, shown: str) -> None:
    assert text.cut_middle("admissionregistration.k8s.io/mutatingwebhookconfigurations", width) == shown


@given(st.text(), st.integers(9, 60))
def test_wrap_and_cut_middle_are_printable_and_never_too_wide(value: str, width: int) -> None:
    for line in (*text.wrap(value, width, 2), text.cut_middle(value, width)):
        assert text.safe(line) == line
        assert len(text.pad(line, width)) <= width
        assert text.cut(line, width) == line


def test_dra_device_without_a_claim_is_free_not_unknown() -> None:
    devices = DeviceReplicas()
    devices.slices["s"] = (SliceDevice("gpu.example.com", "pool", "gpu-0"),)
    (device,) = devices.all()
    assert device.unused
    assert tiles.glyph(device) == "□"
    heading = text.plain(tiles.heading(devices.groups([device])[0], 80))
    assert "1 devices, 0 healthy, 1 unused, 0 held" in heading


def test_tiles_of_10000_devices_are_few_lines_and_fast() -> None:
    model = big_devices(10_000, 5_000)
    began = time.process_time()
    rows = tiles.rows(model.groups(model.all()), 79, dense=True)
    shown = [tiles.line(row, 79, dense=True, chosen=("example.com/gpu", "gpu-7")) for row in rows[:20]]
    assert time.process_time() - began < 2.0
    assert len(rows) == 2 + 2 * 64
    assert sum(row.count for row in rows) == 10_000
    assert all(len(text.plain(line)) <= 79 for line in shown)
    assert model.all() is model.all()


def test_devices_sort_by_number_within_numa_node() -> None:
    model = big_devices(12, 0)
    assert [device.name for device in model.all()][:6] == ["gpu-0", "gpu-2", "gpu-4", "gpu-6", "gpu-8", "gpu-10"]


def test_tiles_of_hostile_ids_cannot_forge_lines() -> None:
    model = DeviceReplicas()
    device = Device(ESCAPE, ESCAPE)
    model.inventory = {ESCAPE: ResourceInventory(ESCAPE, True, (device,))}
    model.health = {f"{ESCAPE} {ESCAPE}": DeviceHealth(ESCAPE, ESCAPE, UNHEALTHY, ESCAPE)}
    for row in tiles.rows(model.groups(model.all()), 79, dense=False):
        assert text.plain(tiles.line(row, 79, dense=False, chosen=None)).isprintable()


def test_health_history_is_bounded_per_device_and_in_all() -> None:
    model = DeviceReplicas()
    for number in range(HISTORY * 3):
        model.reported(DeviceHealth("r", "a", UNHEALTHY if number % 2 else HEALTHY, changed_ns=number + 1), 0)
    (device,) = big_devices(1, 0).all()
    assert len(model._history["r", "a"]) == HISTORY
    assert model.history(device) == []
    for number in range(DEVICES_WITH_HISTORY * 2):
        model.reported(DeviceHealth("r", str(number), HEALTHY), 0)
    assert len(model._history) == DEVICES_WITH_HISTORY


def test_connection_of_a_resource_is_that_of_its_best_plugin() -> None:
    model = big_devices(1, 0)
    model.plugins = {"1": PluginView("example.com/gpu", "a", "gone"), "2": PluginView("example.com/gpu", "b", "serves")}
    assert model.connection("example.com/gpu", False) == "serves"
    assert model.connection("other", False) == "gone"


def test_pod_of_garbage_is_a_row() -> None:
    garbage = {
        "metadata": {"name": ESCAPE, "creationTimestamp": 5},
        "spec": {"containers": [{"name": 1}, "x"]},
        "status": 3,
    }
    pod = pod_of(garbage)
    assert (pod.phase, pod.restarts, len(pod.containers)) == ("Unknown", 0, 1)


def test_pods_report_whether_a_status_changed() -> None:
    pods = PodReplicas()
    obj = {"metadata": {"name": "a", "namespace": "d", "uid": "1"}, "status": {"phase": "Pending"}}
    assert pods.put(pod_of(obj))
    assert not pods.put(pod_of(obj))
    assert pods.put(pod_of({**obj, "status": {"phase": "Running"}}))


def test_pleg_latency_is_from_the_first_event_to_the_status() -> None:
    pleg = Pleg()
    pleg.happened(PodLifecycleEvent("u", "ContainerDied", "c"), 100.0)
    pleg.happened(PodLifecycleEvent("u", "ContainerStarted", "d"), 100.2)
    pleg.status_changed("u", 100.3)
    pleg.status_changed("u", 150.0)
    assert pleg.latency.quantile(0.99, 150.0) == pytest.approx(0.3)


def test_pleg_memory_is_bounded() -> None:
    pleg = Pleg()
    for number in range(WAITING * 2):
        pleg.happened(PodLifecycleEvent(str(number), "ContainerDied", "c"), 1.0)
    assert len(pleg.events) == EVENTS
    assert len(pleg._waiting) == WAITING
    pleg.status_changed(str(WAITING * 2 - 1), 2.0 + STATUS_S)
    assert pleg.latency.quantile(0.5, 2.0 + STATUS_S) is None


def test_pleg_names_of_deleted_pods_are_bounded() -> None:
    pleg = Pleg()
    for number in range(DELETED * 2):
        pleg.pod_deleted(str(number), f"default/{number}")
    assert len(pleg.deleted) == DELETED
    assert str(DELETED * 2 - 1) in pleg.deleted


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.25, "0.2"), (4, "4"), (12.3, "12"), (3400, "3.4k"), (2.5e6, "2.5M")]
)
def test_number_is_short(value: float, shown: str) -> None:
    assert text.number(value) == shown


def test_pleg_switches_are_kept_by_mode() -> None:
    pleg = Pleg()
    for mode in ("generic", "generic", "evented"):
        pleg.switched(PlegState(mode=mode), 1.0)
    assert [switch.mode for switch in pleg.switches] == ["generic", "evented"]


def test_series_keeps_fifteen_minutes_with_gaps() -> None:
    series = Series()
    for second in range(0, 3600, 5):
        series.add(second, float(second))
    values = series.values(3600.0)
    assert len(values) == POINTS
    assert values[-1] is None
    assert values[-2] == 3595.0


def test_latencies_keep_bounded_samples_of_a_step() -> None:
    latencies = Latencies()
    for number in range(SAMPLES * 2):
        latencies.add(1.0, float(number))
    assert latencies.quantile(0.0, 2.0) == SAMPLES
    assert latencies.quantile(0.5, 10_000.0) is None


def test_rate_of_a_restarted_counter_is_unknown_once() -> None:
    rate = Rate()
    assert [rate.of(0, 10), rate.of(5, 20), rate.of(10, 3), rate.of(15, 8)] == [None, 2.0, None, 1.0]


def test_plot_shows_zero_gap_and_most() -> None:
    assert plot([None, 0.0, 5.0, 10.0], 4, 1) == [" ▁▄█"]
    assert plot([0.0, 8.0], 2, 2) == [" █", "▁█"]
    assert plot([], 0, 1) == [""]


PAGE = """# HELP x y
apiserver_request_total{group="",resource="pods",verb="LIST",code="200"} 3.0
apiserver_request_total{group="",resource="pods",verb="WATCH",code="200"} 5.0
apiserver_longrunning_requests{group="",resource="pods",verb="WATCH"} 2.0
nodeplane_replica_window{group="",resource="pods"} 10
d_bucket{le="0.1"} 5
d_bucket{le="1.0"} 9
d_bucket{le="+Inf"} 10
broken{ 1
"""


def test_page_sums_by_label_and_estimates_quantiles() -> None:
    page = Page(PAGE, {"apiserver_request_total", "d_bucket"})
    assert page.total("apiserver_request_total") == 8
    assert page.by("apiserver_request_total", "resource", verb="LIST") == {("pods",): 3.0}
    assert bucket_quantile(page, "d", 0.5) == 0.1
    assert bucket_quantile(page, "d", 0.99) == 1.0
    assert bucket_quantile(page, "missing", 0.5) is None


def test_metrics_that_are_plotted_are_those_that_are_read_and_recorded() -> None:
    for instance, rows in COUNTERS.items():
        assert {name for _, name, _ in rows} <= names_of(instance)
    for instance, histograms in QUANTILES.items():
        assert {f"{name}_bucket" for _, name in histograms} <= names_of(instance)
    assert SERVER_COUNTER in names_of("apiserver-3")
    assert names_of("devices") == frozenset()


def test_page_of_recorded_samples_is_that_of_the_text() -> None:
    found = dict(samples(PAGE, SERVER_NAMES))
    assert Page.of(found).samples == Page(PAGE, SERVER_NAMES).samples
    assert len(found) == 4


def watched(seq: int, servers: int = 1) -> House:
    house = House()
    owns = (OwnedStream("objects/core/pods", seq, 100 + seq),)
    follows = (FollowedStream("watchcache", "objects/core/pods", 1, seq, 100 + seq - 1, True),)
    replicas = [
        actor(f"apiserver-{n}", "watcher", beat=beat(f"apiserver-{n}", follows=follows)) for n in range(servers)
    ]
    for now in (1.0, 4.0):
        house.update(plane(actor("watchcache", "control", beat=beat("watchcache", owns=owns)), *replicas), now)
    return house


def server(lists: int, ended: int, open: int) -> Page:
    lines = PAGE.replace('"LIST",code="200"} 3.0', f'"LIST",code="200"}} {lists}')
    lines = lines.replace('"WATCH",code="200"} 5.0', f'"WATCH",code="200"}} {ended}')
    return Page(lines.replace('verb="WATCH"} 2.0', f'verb="WATCH"}} {open}'), SERVER_NAMES)


def test_watch_page_counts_resumed_watches_over_a_restart() -> None:
    page = WatchPage()
    page.moved(watched(20), 40.0)
    page.server_measured("apiserver-0", server(3, 5, 2))
    page.server_measured("apiserver-0", server(0, 0, 2))  # a new process: its clients came back without a list
    (row,) = page.rows(watched(20), 50.0)
    assert (row.watches.open, row.watches.resumed, row.watches.relisted) == (2, 2, 0)
    assert page.notes(watched(20)) == {"apiserver-0": "2w", "store": "rev 120"}
    assert row.replicas[0].behind == 1


def test_watch_page_counts_the_first_watch_that_ends() -> None:
    """A counter appears on the page when it has counted."""
    page = WatchPage()
    page.moved(watched(20), 40.0)
    line = next(line for line in PAGE.splitlines(keepends=True) if 'verb="WATCH",code' in line)
    page.server_measured("apiserver-0", Page(PAGE.replace(line, ""), SERVER_NAMES))
    page.server_measured("apiserver-0", server(3, 1, 1))
    (row,) = page.rows(watched(20), 50.0)
    assert (row.watches.ended, row.watches.resumed) == (1, 0)


def test_watch_page_counts_streamed_lists_as_lists() -> None:
    page = WatchPage()
    page.moved(watched(20), 40.0)
    page.server_measured("apiserver-0", server(3, 5, 2))
    streamed = 'apiserver_watch_list_duration_seconds_count{group="",resource="pods"} 2\n'
    lines = PAGE.replace('verb="WATCH"} 2.0', 'verb="WATCH"} 10')
    page.server_measured("apiserver-0", Page(lines + streamed, SERVER_NAMES))
    (row,) = page.rows(watched(20), 50.0)
    assert (row.watches.resumed, row.watches.relisted) == (6, 2)


def test_watch_page_bookmark_is_as_old_as_the_last_move_or_notice() -> None:
    page = WatchPage()
    page.moved(watched(20), 10.0)
    page.moved(watched(20), 15.0)
    assert page.rows(watched(20), 18.0)[0].bookmark_age == 8.0
    for count, now in ((1, 16.0), (2, 17.0)):
        page.cache_measured(Page(f'etcd_bookmark_total{{group="",resource="pods"}} {count}', NAMES["watchcache"]), now)
    assert page.rows(watched(20), 18.0)[0].bookmark_age == 1.0


def test_watch_page_counts_a_later_server_from_its_start() -> None:
    page = WatchPage()
    page.moved(watched(20, servers=2), 40.0)
    for name in ("apiserver-0", "apiserver-1", "apiserver-2"):
        page.server_measured(name, server(3, 5, 2))
    (row,) = page.rows(watched(20, servers=3), 50.0)
    assert (row.watches.open, row.watches.relisted, row.watches.ended) == (6, 3, 5)


def test_watch_page_reach_is_the_age_of_the_oldest_retained_change() -> None:
    page = WatchPage()
    for second in range(0, 100, 5):
        page.moved(watched(second), float(second))
    page.server_measured("apiserver-0", server(3, 5, 2))
    (row,) = page.rows(watched(95), 95.0)
    assert row.reach == 10.0


def test_watch_page_forgets_servers_that_are_gone() -> None:
    page = WatchPage()
    page.server_measured("apiserver-1", server(3, 5, 2))
    page.forget_servers({"apiserver-0"})
    (row,) = page.rows(watched(20), 50.0)
    assert row.watches.open == 0


async def test_api_of_a_plane_without_one_is_named(tmp_path: Path) -> None:
    world = World()
    await Api(layout(str(tmp_path)), world).follow()
    assert world.pods.failure == "this plane reports no API"
    world.house.endpoints = {"api": "https://127.0.0.1:1"}
    await Api(layout(str(tmp_path)), world).follow()
    assert "cannot use" in world.pods.failure


def test_other_commands_load_neither_textual_nor_the_console() -> None:
    code = (
        "import sys; from supervisor.cli.commands import COMMANDS, parser_of; import importlib\n"
        "parser_of(map(importlib.import_module, sorted({each.path for each in COMMANDS.values()})))\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'textual', 'textual_serve', 'aiohttp', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert "textual" not in done.stdout


def test_ended_process_leaves_no_usage_and_is_not_stopped() -> None:
    house = House()
    house.update(plane(actor("pleg", pid=1)), 100.0)
    house.measured({"pleg": ActorUsage(50.0, 9.0, stopped=True)}, 101.0)
    house.update(plane(actor("pleg", state="failed", pid=0)), 102.0)
    assert (house.actors["pleg"].state, house.actors["pleg"].usage.cpu) == ("failed", 0.0)


def test_event_without_a_status_does_not_hide_the_next_latency() -> None:
    pleg = Pleg()
    pleg.happened(PodLifecycleEvent("u", "ContainerDied", "c"), 100.0)
    pleg.happened(PodLifecycleEvent("u", "ContainerStarted", "d"), 101.0 + STATUS_S)
    pleg.status_changed("u", 101.5 + STATUS_S)
    assert pleg.latency.quantile(0.99, 102.0 + STATUS_S) == pytest.approx(0.5)


async def test_order_given_during_a_status_is_followed_by_another_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisors, "STATUS_S", 3600.0)
    asked, again = [], asyncio.Event()

    class Plane:
        async def status(self, timeout: float) -> PlaneStatus:
            asked.append(timeout)
            if len(asked) == 1:
                await feed.order("pleg", "restart")
            else:
                again.set()
            return plane()

        async def restart(self, instance: str) -> None:
            """Do nothing."""

    feed = supervisors.Supervisors(cast(Any, Plane()), World())
    polling = asyncio.create_task(feed.poll())
    await asyncio.wait_for(again.wait(), 60.0)
    polling.cancel()
    await asyncio.wait([polling])


async def test_log_is_asked_for_with_room_for_its_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, str] = {}

    async def text(path: str, query: dict[str, str], limit: int) -> str:
        asked.update(query)
        return "log"

    api = Api(layout("/r"), World())
    monkeypatch.setattr(api, "_client", SimpleNamespace(text=text))
    assert await api.log_of("ns", "p", "c") == "log"
    assert int(asked["limitBytes"]) >= int(asked["tailLines"]) * 16 * 1024
