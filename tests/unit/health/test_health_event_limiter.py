import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given

from protocols.lifecycle.devices.event_limiter import (
    NODE_BURST,
    NODE_RATE,
    POD_BURST,
    POD_REFILL_S,
    AllocatedDevice,
    Health,
    HealthEventLimiter,
)

GPU = AllocatedDevice("u1", "main", "example.com/gpu", "gpu-1")
H, U, X = Health.HEALTHY, Health.UNHEALTHY, Health.UNKNOWN


def reasons(limiter: HealthEventLimiter, now: float) -> list[str]:
    return [event.reason for event in limiter.due(now)]


def test_observe_first_healthy_gives_no_event() -> None:
    limiter = HealthEventLimiter()
    limiter.observe(GPU, H, "", 0)
    assert not limiter.due(0)
    assert limiter.next_due(0) is None


def test_due_transition_gives_event_with_message_at_once() -> None:
    limiter = HealthEventLimiter()
    limiter.observe(GPU, H, "", 0)
    limiter.observe(GPU, U, "ECC error", 1)
    (event,) = limiter.due(1)
    assert (event.type, event.reason) == ("Warning", "DeviceUnhealthy")
    assert event.message == "Device gpu-1 of example.com/gpu in container main is Unhealthy: ECC error"
    limiter.observe(GPU, H, "", 2)
    assert [(n.type, n.reason) for n in limiter.due(2)] == [("Normal", "DeviceHealthy")]


def test_due_brief_unknown_gives_no_event() -> None:
    limiter = HealthEventLimiter()
    limiter.observe(GPU, H, "", 0)
    limiter.observe(GPU, X, "", 10)
    assert not limiter.due(10.5)
    limiter.observe(GPU, H, "", 11)
    assert not limiter.due(100)


def test_due_lasting_unknown_gives_event() -> None:
    limiter = HealthEventLimiter()
    limiter.observe(GPU, H, "", 0)
    limiter.observe(GPU, X, "plugin gone", 10)
    assert limiter.next_due(10) == 12
    assert reasons(limiter, 12) == ["DeviceHealthUnknown"]


def test_due_first_unknown_is_held_longer() -> None:
    limiter = HealthEventLimiter()
    limiter.observe(GPU, X, "", 0)
    limiter.observe(GPU, H, "", 3)
    assert not limiter.due(100)
    later = HealthEventLimiter()
    later.observe(GPU, X, "", 0)
    assert not later.due(14)
    assert reasons(later, 15) == ["DeviceHealthUnknown"]


@pytest.mark.parametrize("name", ["claim:gpu", "example.com/by-claim"])
def test_observe_driver_without_health_reports_gives_no_event(name: str) -> None:
    claimed = AllocatedDevice("u1", "main", name, "gpu.example.com/n1/gpu-0")
    limiter = HealthEventLimiter()
    for second in range(100):
        limiter.observe(claimed, X, "", second)
    assert not limiter.due(200)
    assert len(limiter) == 0
    limiter.observe(claimed, U, "no fan", 201)
    assert reasons(limiter, 201) == ["DeviceUnhealthy"]
    limiter.observe(claimed, X, "", 202)
    assert reasons(limiter, 212) == ["DeviceHealthUnknown"]


def test_due_flapping_device_is_bounded_and_ends_with_latest() -> None:
    limiter, events = HealthEventLimiter(), list[str]()
    limiter.observe(GPU, H, "", 0)
    for tick in range(1, 1001):
        limiter.observe(GPU, U if tick % 2 else H, "", tick / 10)
        events += reasons(limiter, tick / 10)
    assert len(events) <= POD_BURST + 100 / POD_REFILL_S + 1
    limiter.observe(GPU, U, "", 101)
    events += reasons(limiter, 101 + POD_REFILL_S)
    assert events[-1] == "DeviceUnhealthy"


def test_forget_pod_leaves_nothing() -> None:
    limiter = HealthEventLimiter()
    limiter.observe(GPU, U, "", 0)
    limiter.forget("u1")
    assert len(limiter) == 0
    assert not limiter.due(10)


def test_observe_finished_pod_first_observation_gives_no_event() -> None:
    limiter = HealthEventLimiter()
    limiter.observe(GPU, U, "ECC", 0, pod_finished=True)
    assert limiter.next_due(0) is None
    limiter.observe(GPU, H, "", 1, pod_finished=True)
    assert reasons(limiter, 1) == ["DeviceHealthy"]


def gpus(count: int, uid: str = "u1") -> list[AllocatedDevice]:
    return [AllocatedDevice(uid, "main", "example.com/gpu", f"gpu-{n:02}") for n in range(count)]


def test_due_same_transition_shares_one_event() -> None:
    limiter = HealthEventLimiter()
    for device in gpus(10):
        limiter.observe(device, H, "", 0)
        limiter.observe(device, U, "bus is off", 1)
    (event,) = limiter.due(1)
    named = ", ".join(f"gpu-{n:02}" for n in range(8))
    assert event.message == f"Devices {named} and 2 more of example.com/gpu in container main are Unhealthy: bus is off"
    assert limiter.next_due(1) is None


def test_due_different_messages_give_separate_events() -> None:
    limiter, own = HealthEventLimiter(), AllocatedDevice("u1", "", "claim:gpu", "drv/p/d")
    limiter.observe(own, U, "", 0)
    limiter.observe(GPU, U, "ECC", 0)
    texts = [event.message for event in limiter.due(0)]
    assert texts == [
        "Device drv/p/d of claim:gpu is Unhealthy",
        "Device gpu-1 of example.com/gpu in container main is Unhealthy: ECC",
    ]


def test_due_many_flapping_pods_keep_node_rate() -> None:
    limiter, events = HealthEventLimiter(), 0
    devices = [device for n in range(200) for device in gpus(5, f"u{n}")]
    for second in range(60):
        for device in devices:
            limiter.observe(device, U if second % 2 else H, "", second)
        events += len(limiter.due(second))
    assert events <= NODE_BURST + 60 * NODE_RATE + 1


def test_due_flapping_pods_do_not_starve_others() -> None:
    limiter = HealthEventLimiter()
    for tick in range(2000):
        for device in gpus(1, f"u{tick % 300}"):
            limiter.observe(device, U if tick // 300 % 2 else H, "", tick / 100)
        limiter.due(tick / 100)
    limiter.observe(AllocatedDevice("quiet", "main", "example.com/gpu", "gpu-9"), U, "", 20)
    events = [event for second in range(60) for event in limiter.due(20 + second)]
    assert "quiet" in {event.uid for event in events}


@given(st.lists(st.tuples(st.sampled_from([H, U, X]), st.floats(0, 5)), max_size=40))
def test_due_any_changes_alternate_and_end_with_latest(changes: list[tuple[Health, float]]) -> None:
    limiter, now, events = HealthEventLimiter(), 0.0, list[str]()
    limiter.observe(GPU, H, "", now)
    last = H
    for health, gap in changes:
        now += gap
        limiter.observe(GPU, health, "", now)
        last = health
        events += reasons(limiter, now)
    while (due := limiter.next_due(now)) is not None:
        now = max(due, now + 0.001)
        events += reasons(limiter, now)
    assert all(one != other for one, other in itertools.pairwise(events))
    ends = {H: "DeviceHealthy", U: "DeviceUnhealthy", X: "DeviceHealthUnknown"}
    assert (events[-1] if events else "DeviceHealthy") == ends[last]
