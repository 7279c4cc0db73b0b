import itertools
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from protocols.lifecycle.devices.status_table import (
    BURST,
    FINISHED_UNKNOWN_HOLD_S,
    StatusTable,
    held_devices,
    pod_status,
)
from protocols.messages.devices import DeviceHealth
from protocols.messages.health import (
    HeldContainer,
    HeldResource,
    PodHeld,
    PodResourceStatus,
    ResourceHealth,
    ResourceStatus,
    health_key,
)

GPU, CLAIM = "example.com/gpu", "claim:c"
DEVICES = [(GPU, "g1"), (GPU, "g2"), (CLAIM, "drv/p/d"), ("example.com/by-claim", "drv/p/d")]
RATE = 2.0
Device = tuple[str, str]
"""A resource and an id."""
Shown = tuple[dict[str, tuple[ResourceStatus, ...]], tuple[ResourceStatus, ...]]
"""Of containers, and of the pod."""


def holds(*devices: Device) -> PodHeld:
    resources = tuple(
        HeldResource(name, tuple(sorted(one for _, one in group)))
        for name, group in itertools.groupby(sorted(devices), key=lambda device: device[0])
    )
    return PodHeld((HeldContainer("a", resources),)) if resources else PodHeld()


class Node:
    """A status table with the devices pods hold and the health reports it reads."""

    def __init__(self) -> None:
        self.held, self.known = dict[str, PodHeld](), dict[str, DeviceHealth]()
        self.finished = set[str]()
        self.table = StatusTable(self.held, self.known, RATE, self.finished.__contains__)
        self.now, self.reports = 100.0, 0

    def allocate(self, uid: str, *devices: Device) -> None:
        self.held[uid] = holds(*devices)
        if not devices:
            del self.held[uid]
        self.table.held_changed(uid)

    def report(self, device: Device, state: str) -> None:
        self.reports += 1
        key = health_key(*device)
        self.known[key] = DeviceHealth(*device, state, changed_ns=self.reports)
        self.table.health_changed(key)

    def refresh(self) -> dict[str, PodResourceStatus | None]:
        return self.table.refresh(self.now)

    def refreshed(self, uid: str) -> PodResourceStatus:
        status = self.refresh()[uid]
        assert status is not None
        return status

    def expected(self) -> dict[str, PodResourceStatus]:
        return {uid: pod_status(uid, held, self.known) for uid, held in self.held.items()}

    def published(self) -> dict[str, Shown]:
        return {uid: (status.containers, status.pod) for uid, status in self.table.published.items()}

    def refresh_until_idle(self) -> None:
        """Advance the clock until no pod is deferred."""
        self.refresh()
        while (due := self.table.next_due()) is not None:
            assert due > self.now
            self.now = due
            self.refresh()


def test_refresh_after_flap_back_publishes_nothing() -> None:
    node = Node()
    node.report(DEVICES[0], "Healthy")
    node.allocate("u1", DEVICES[0])
    node.refresh()
    node.report(DEVICES[0], "Unhealthy")
    node.report(DEVICES[0], "Healthy")
    assert node.refresh() == {}


def test_refresh_finished_pod_shows_lasting_unknown_only() -> None:
    """A device that fell off the bus and failed its pod must not stay Healthy; a restart on the way is no news."""
    node = Node()
    node.report(DEVICES[0], "Healthy")
    node.allocate("u1", DEVICES[0])
    node.refresh()
    node.finished.add("u1")
    node.report(DEVICES[0], "Unknown")
    assert node.refresh() == {}
    node.now += 0.9 * FINISHED_UNKNOWN_HOLD_S
    node.report(DEVICES[0], "Healthy")
    node.refresh_until_idle()
    assert node.table.published["u1"].containers["a"][0].resources[0].health == "Healthy"
    node.report(DEVICES[0], "Unknown")
    assert node.refresh() == {}
    node.now += FINISHED_UNKNOWN_HOLD_S
    assert node.refreshed("u1").containers["a"][0].resources[0].health == "Unknown"
    node.report(DEVICES[0], "Unhealthy")
    node.refresh_until_idle()
    assert node.published() == {"u1": (node.expected()["u1"].containers, ())}


def test_refresh_shared_device_reaches_all_its_pods() -> None:
    node = Node()
    for uid in ("u1", "u2", "u3"):
        node.allocate(uid, DEVICES[2] if uid != "u3" else DEVICES[0])
    node.refresh()
    node.report(DEVICES[2], "Unhealthy")
    assert sorted(node.refresh()) == ["u1", "u2"]
    node.allocate("u1")
    node.refresh()
    node.report(DEVICES[2], "Healthy")
    assert sorted(node.refresh()) == ["u2"]


def test_refresh_driver_report_reaches_holders_of_extended_resource() -> None:
    node = Node()
    node.allocate("u1", DEVICES[3])
    node.refresh()
    node.report(DEVICES[2], "Unhealthy")
    assert node.refreshed("u1").containers["a"][0] == ResourceStatus(
        "example.com/by-claim", (ResourceHealth("drv/p/d", "Unhealthy"),)
    )


def test_refresh_flapping_device_keeps_rate_and_ends_with_latest() -> None:
    node, writes = Node(), 0
    node.allocate("u1", DEVICES[0])
    for tick in range(1000):
        node.now += 0.01
        node.report(DEVICES[0], "Unhealthy" if tick % 2 else "Healthy")
        writes += len(node.refresh())
    assert writes <= BURST + 10 * RATE + 1
    assert node.table.suppressed > 900
    node.refresh_until_idle()
    assert node.published()["u1"][0]["a"][0].resources[0].health == "Unhealthy"


def test_held_devices_counts_a_pods_device_once_and_claims_together() -> None:
    node = Node()
    node.report(DEVICES[0], "Unhealthy")
    node.allocate("u1", DEVICES[0])
    node.allocate("u2", DEVICES[1])
    node.refresh()
    shown = node.table.published["u1"].containers["a"]
    claims = tuple(ResourceStatus(name=f"claim:{name}", resources=shown[0].resources) for name in ("x", "y"))
    twice = PodResourceStatus(uid="u3", containers={"a": shown, "b": shown}, pod=claims)
    found = held_devices([*node.table.published.values(), twice])
    assert (found[GPU, "Unhealthy"], found[GPU, "Unknown"], found[GPU, "Healthy"]) == (2, 1, 0)
    assert found["claim", "Unhealthy"] == 2


def test_refresh_deferred_pod_does_not_defer_others() -> None:
    node = Node()
    node.allocate("u1", DEVICES[0])
    node.allocate("u2", DEVICES[1])
    for tick in range(20):
        node.report(DEVICES[0], "Unhealthy" if tick % 2 else "Healthy")
        node.refresh()
    node.report(DEVICES[1], "Unhealthy")
    assert list(node.refresh()) == ["u2"]


def test_refresh_allocation_and_release_are_never_deferred() -> None:
    node = Node()
    node.allocate("u1", DEVICES[0])
    for tick in range(20):
        node.report(DEVICES[0], "Unhealthy" if tick % 2 else "Healthy")
        node.refresh()
    node.allocate("u1", DEVICES[0], DEVICES[2])
    assert node.refresh()["u1"] is not None
    node.allocate("u1")
    assert node.refresh() == {"u1": None}
    assert node.table.next_due() is None
    assert node.table.published == {}


def test_refresh_reports_time_of_oldest_new_report() -> None:
    node = Node()
    node.report(DEVICES[0], "Healthy")
    node.report(DEVICES[1], "Healthy")
    node.allocate("u1", *DEVICES)
    assert node.refreshed("u1").reported_ns == 0
    node.report(DEVICES[0], "Unhealthy")
    node.report(DEVICES[2], "Unhealthy")
    assert node.refreshed("u1").reported_ns == 3


def test_refresh_unallocated_devices_change_nothing() -> None:
    node = Node()
    node.allocate("u1", DEVICES[0])
    node.refresh()
    for n in range(100_000):
        node.table.health_changed(f"{GPU} other-{n}")
    assert node.refresh() == {}


def test_refresh_released_pods_leave_no_rate_limits() -> None:
    node = Node()
    for n in range(100):
        node.allocate(f"u{n}", DEVICES[0])
        node.refresh()
        node.allocate(f"u{n}")
        node.refresh()
    assert node.table._buckets == {}


uids = st.sampled_from(["u1", "u2", "u3"])
steps = st.one_of(
    st.tuples(st.just("allocate"), uids, st.lists(st.sampled_from(DEVICES), unique=True, max_size=3)),
    st.tuples(st.just("report"), st.sampled_from(DEVICES), st.sampled_from(["Healthy", "Unhealthy", "Unknown", "?"])),
    st.tuples(st.just("forget"), st.sampled_from(DEVICES)),
    st.tuples(st.just("refresh"), st.floats(0, 1)),
)


@given(st.lists(steps, max_size=40))
def test_refresh_any_changes_equals_full_computation_without_duplicates(life: list[Any]) -> None:
    node, seen, writes, begun = Node(), dict[str, Shown | None](), dict[str, int](), 100.0
    for step in life:
        match step:
            case ("allocate", uid, devices):
                node.allocate(uid, *devices)
                writes.pop(uid, None)
            case ("report", device, state):
                node.report(device, state)
            case ("forget", device):
                node.known.pop(health_key(*device), None)
                node.table.health_changed(health_key(*device))
            case ("refresh", seconds):
                node.now += seconds
                for uid, status in node.refresh().items():
                    shown = None if status is None else (status.containers, status.pod)
                    assert uid not in seen or seen[uid] != shown
                    seen[uid] = shown
                    writes[uid] = writes.get(uid, 0) + 1
                    assert writes[uid] <= BURST + 1 + (node.now - begun) * RATE
                assert set(node.table.published) == set(node.held)
    node.refresh_until_idle()
    assert node.published() == {uid: (status.containers, status.pod) for uid, status in node.expected().items()}
