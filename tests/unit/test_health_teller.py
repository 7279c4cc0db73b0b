import itertools

import hypothesis.strategies as st
from hypothesis import given

from actors.health.teller import BURST, NODE_BURST, NODE_RATE, REFILL_S, Subject, Teller

GPU = Subject("u1", "main", "example.com/gpu", "gpu-1")
H, U, X = "Healthy", "Unhealthy", "Unknown"


def reasons(teller, now):
    return [notice.reason for notice in teller.due(now)]


def test_first_healthy_observation_is_silent():
    teller = Teller()
    teller.observe(GPU, H, "", 0)
    assert not teller.due(0)
    assert teller.next_due(0) is None


def test_a_change_is_told_at_once_with_its_message():
    teller = Teller()
    teller.observe(GPU, H, "", 0)
    teller.observe(GPU, U, "ECC error", 1)
    (notice,) = teller.due(1)
    assert (notice.type, notice.reason) == ("Warning", "DeviceUnhealthy")
    assert notice.message == "Device gpu-1 of example.com/gpu in container main is Unhealthy: ECC error"
    teller.observe(GPU, H, "", 2)
    assert [(n.type, n.reason) for n in teller.due(2)] == [("Normal", "DeviceHealthy")]


def test_a_restart_of_the_device_manager_is_no_event():
    teller = Teller()
    teller.observe(GPU, H, "", 0)
    teller.observe(GPU, X, "", 10)
    assert not teller.due(10.5)
    teller.observe(GPU, H, "", 11)
    assert not teller.due(100)


def test_unknown_that_lasts_is_told():
    teller = Teller()
    teller.observe(GPU, H, "", 0)
    teller.observe(GPU, X, "plugin gone", 10)
    assert teller.next_due(10) == 12
    assert reasons(teller, 12) == ["DeviceHealthUnknown"]


def test_first_look_at_a_node_that_just_started():
    teller = Teller()
    teller.observe(GPU, X, "", 0)
    teller.observe(GPU, H, "", 3)
    assert not teller.due(100)
    later = Teller()
    later.observe(GPU, X, "", 0)
    assert not later.due(14)
    assert reasons(later, 15) == ["DeviceHealthUnknown"]


def test_a_driver_that_tells_nothing_of_health_is_nothing_to_warn_of():
    claimed = Subject("u1", "main", "claim:gpu", "gpu.example.com/n1/gpu-0")
    teller = Teller()
    for second in range(100):
        teller.observe(claimed, X, "", second)
    assert not teller.due(200)
    assert len(teller) == 0
    teller.observe(claimed, U, "no fan", 201)
    assert reasons(teller, 201) == ["DeviceUnhealthy"]
    teller.observe(claimed, X, "", 202)
    assert reasons(teller, 212) == ["DeviceHealthUnknown"]


def test_flapping_is_bounded_and_ends_with_the_truth():
    teller, told = Teller(), []
    teller.observe(GPU, H, "", 0)
    for tick in range(1, 1001):
        teller.observe(GPU, U if tick % 2 else H, "", tick / 10)
        told += reasons(teller, tick / 10)
    assert len(told) <= BURST + 100 / REFILL_S + 1
    teller.observe(GPU, U, "", 101)
    told += reasons(teller, 101 + REFILL_S)
    assert told[-1] == "DeviceUnhealthy"


def test_forgotten_pods_leave_nothing():
    teller = Teller()
    teller.observe(GPU, U, "", 0)
    teller.forget("u1")
    assert len(teller) == 0
    assert not teller.due(10)


def test_a_first_look_at_a_pod_that_is_over_repeats_nothing():
    teller = Teller()
    teller.observe(GPU, U, "ECC", 0, over=True)
    assert teller.next_due(0) is None
    teller.observe(GPU, H, "", 1, over=True)
    assert reasons(teller, 1) == ["DeviceHealthy"]


def gpus(count, uid="u1"):
    return [Subject(uid, "main", "example.com/gpu", f"gpu-{n:02}") for n in range(count)]


def test_devices_that_change_alike_share_an_event():
    teller = Teller()
    for subject in gpus(10):
        teller.observe(subject, H, "", 0)
        teller.observe(subject, U, "bus is off", 1)
    (notice,) = teller.due(1)
    named = ", ".join(f"gpu-{n:02}" for n in range(8))
    assert (
        notice.message == f"Devices {named} and 2 more of example.com/gpu in container main are Unhealthy: bus is off"
    )
    assert teller.next_due(1) is None


def test_different_reasons_are_told_apart_and_a_pod_of_its_own_has_no_container():
    teller, own = Teller(), Subject("u1", "", "claim:gpu", "drv/p/d")
    teller.observe(own, U, "", 0)
    teller.observe(GPU, U, "ECC", 0)
    texts = [notice.message for notice in teller.due(0)]
    assert texts == [
        "Device drv/p/d of claim:gpu is Unhealthy",
        "Device gpu-1 of example.com/gpu in container main is Unhealthy: ECC",
    ]


def test_many_flapping_pods_do_not_flood_the_node():
    teller, told = Teller(), 0
    subjects = [subject for n in range(200) for subject in gpus(5, f"u{n}")]
    for second in range(60):
        for subject in subjects:
            teller.observe(subject, U if second % 2 else H, "", second)
        told += len(teller.due(second))
    assert told <= NODE_BURST + 60 * NODE_RATE + 1


def test_a_pod_whose_devices_flap_keeps_no_other_from_being_told_of():
    teller = Teller()
    for tick in range(2000):
        for subject in gpus(1, f"u{tick % 300}"):
            teller.observe(subject, U if tick // 300 % 2 else H, "", tick / 100)
        teller.due(tick / 100)
    teller.observe(Subject("quiet", "main", "example.com/gpu", "gpu-9"), U, "", 20)
    told = [notice for second in range(60) for notice in teller.due(20 + second)]
    assert "quiet" in {notice.uid for notice in told}


@given(st.lists(st.tuples(st.sampled_from([H, U, X]), st.floats(0, 5)), max_size=40))
def test_what_is_told_alternates_and_settles(changes):
    teller, now, told = Teller(), 0.0, []
    teller.observe(GPU, H, "", now)
    last = H
    for health, gap in changes:
        now += gap
        teller.observe(GPU, health, "", now)
        last = health
        told += reasons(teller, now)
    while (due := teller.next_due(now)) is not None:
        now = max(due, now + 0.001)
        told += reasons(teller, now)
    assert all(one != other for one, other in itertools.pairwise(told))
    ends = {H: "DeviceHealthy", U: "DeviceUnhealthy", X: "DeviceHealthUnknown"}
    assert (told[-1] if told else "DeviceHealthy") == ends[last]
