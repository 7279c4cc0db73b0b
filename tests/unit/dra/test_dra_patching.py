"""Patches and the tracker, scenario by scenario."""

import random
from typing import Any

import pytest

from protocols.cel.worker.messages import EvaluationEnded
from protocols.cel.worker.selections import evaluated_by
from protocols.dra.gates import Gates
from protocols.dra.tracker.faults import AGAIN, SliceChange
from protocols.dra.tracker.tracker import Tracker
from protocols.dra.types import Device, Slice
from tests.support.dra_objects import a_class, a_patch, a_rule, a_slice, device, naive, taint

DRV = "d.example.com"
OTHER = "other.example.com"


class Cluster:
    """A tracker, and what it told since the last question."""

    def __init__(self, *slices: Slice, gates: Gates = Gates()) -> None:  # noqa: B008
        self.tracker = Tracker(gates)
        for obj in slices:
            self.tracker.put_slice(obj)
        self.tracker.settle()

    def patch(self, *args: Any, **more: Any) -> list[SliceChange]:
        self.tracker.put_patch(a_patch(*args, **more))
        return self.tracker.settle()

    def device(self, name: str = "x", slice_name: str = "s") -> Device:
        found = self.tracker.get(slice_name)
        assert found is not None
        return next(each for each in found.devices if each.name == name)

    def attrs(self, name: str = "x", slice_name: str = "s") -> dict[str, Any]:
        return {key: value.value for key, value in self.device(name, slice_name).attributes.items()}

    def amounts(self, name: str = "x", slice_name: str = "s") -> dict[str, str]:
        return {key: str(amount.value) for key, amount in self.device(name, slice_name).capacity.items()}


@pytest.mark.scenario("S1")
def test_without_patches_everything_passes_through() -> None:
    tracker = Tracker()
    published = a_slice("s", device("x", {"a": 1}))
    tracker.put_slice(published)
    assert tracker.settle() == [SliceChange(None, published)]
    assert tracker.slices() == (published,)
    assert tracker.get("s") is tracker.published["s"]
    again = a_slice("s", device("x", {"a": 2}))
    tracker.put_slice(again)
    ((old, new),) = tracker.settle()
    assert (old, new) == (published, again)
    tracker.drop_slice("s")
    assert tracker.settle() == [SliceChange(again, None)]
    tracker.drop_slice("s")
    assert tracker.settle() == []


@pytest.mark.scenario("S2")
def test_a_device_without_attributes_is_patched_with_one_event() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    ((old, new),) = cluster.patch("p", {f"{DRV}/a": 1}, {f"{DRV}/m": "1Gi"})
    assert old is not None
    assert new is not None
    assert (cluster.attrs(), cluster.amounts()) == ({f"{DRV}/a": 1}, {f"{DRV}/m": "1Gi"})
    assert not old.devices[0].attributes


@pytest.mark.scenario("S3")
def test_a_gate_that_is_off_leaves_devices_alone_without_events() -> None:
    cluster = Cluster(a_slice("s", device("x")), gates=Gates(attributes=False))
    assert cluster.patch("p", {f"{DRV}/a": 1}, {f"{DRV}/m": "1Gi"}) == []
    assert cluster.device() is cluster.tracker.published["s"].devices[0]


@pytest.mark.scenario("S4")
def test_a_patch_that_moves_to_another_pool_lets_go_of_the_first() -> None:
    cluster = Cluster(a_slice("s", device("x"), pool="pool-1"), a_slice("t", device("x"), pool="pool-2"))
    cluster.patch("p", {f"{DRV}/a": 1}, pool="pool-1")
    assert (cluster.attrs(slice_name="s"), cluster.attrs(slice_name="t")) == ({f"{DRV}/a": 1}, {})
    assert len(cluster.patch("p", {f"{DRV}/a": 1}, pool="pool-2", generation=2)) == 2
    assert (cluster.attrs(slice_name="s"), cluster.attrs(slice_name="t")) == ({}, {f"{DRV}/a": 1})


@pytest.mark.scenario("S5")
def test_bare_and_qualified_attribute_names_are_one() -> None:
    names = {f"{DRV}/removeMe": 1, "removeMeToo": 1, f"{DRV}/keepMe": 1, "keepMeToo": 1}
    cluster = Cluster(a_slice("s", device("x", names)))
    cluster.patch("p", {f"{DRV}/removeMe": None, f"{DRV}/removeMeToo": None, f"{DRV}/keepMe": 2, f"{DRV}/keepMeToo": 2})
    assert cluster.attrs() == {f"{DRV}/keepMe": 2, f"{DRV}/keepMeToo": 2}


@pytest.mark.scenario("S6")
def test_bare_and_qualified_capacity_names_are_one() -> None:
    cluster = Cluster(a_slice("s", device("x", {}, {"memory": "80Gi"})))
    cluster.patch("p", capacity={f"{DRV}/memory": "0", f"{OTHER}/memory": "1"})
    assert cluster.amounts() == {f"{DRV}/memory": "0", f"{OTHER}/memory": "1"}


def test_a_driver_that_publishes_both_spellings_means_the_qualified_one() -> None:
    for names in ({"x": 1, f"{DRV}/x": 2}, {f"{DRV}/x": 2, "x": 1}):
        assert Cluster(a_slice("s", device("x", names))).attrs() == {f"{DRV}/x": 2}


@pytest.mark.scenario("S7", "S8")
@pytest.mark.parametrize("filter", [{"driver": DRV}, {"pool": "p"}, {"driver": DRV, "pool": "p"}])
def test_slices_not_selected_by_name_are_unchanged(filter: dict[str, str]) -> None:
    cluster = Cluster(a_slice("s", device("x")), a_slice("t", device("x"), driver=OTHER, pool="q"))
    changes = cluster.patch("p", {f"{DRV}/a": 1}, **filter)
    assert [new.name for _, new in changes if new] == ["s"]
    assert cluster.tracker.get("t") is cluster.tracker.published["t"]


@pytest.mark.scenario("S9")
def test_other_devices_of_a_slice_are_the_same_objects() -> None:
    cluster = Cluster(a_slice("s", device("x"), device("y")))
    cluster.patch("p", {f"{DRV}/a": 1}, device="x")
    assert cluster.attrs("x") == {f"{DRV}/a": 1}
    assert cluster.device("y") is cluster.tracker.published["s"].devices[1]


@pytest.mark.scenario("S10")
def test_all_selectors_must_be_true() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    assert cluster.patch("p", {f"{DRV}/a": 1}, selectors=["true", "false", "true"]) == []
    assert cluster.patch("p", {f"{DRV}/a": 1}, selectors=["true", "true"], generation=2) != []


@pytest.mark.scenario("S11")
def test_a_faulty_selector_skips_its_device_and_is_reported_once() -> None:
    cluster = Cluster(a_slice("s", device("x"), device("y", {"only": True}), device("z")))
    cluster.patch("p", {f"{DRV}/a": 1}, selectors=[f'device.attributes["{DRV}"].only'])
    assert [bool(cluster.attrs(name).get(f"{DRV}/a")) for name in "xyz"] == [False, True, False]
    (report,) = cluster.tracker.faults.due(0)
    assert (report.patch, report.reason) == ("p", "CELRuntimeError")
    assert (
        report.message == "selector #0: runtime error: no such key: only: device d.example.com/p/x (and 1 more device)"
    )
    assert cluster.tracker.faults.due(1) == []


def test_selector_whose_evaluation_was_ended_is_judged_again() -> None:
    class Busy:
        is_busy = True

        def result(self, expression: str, driver: str, device: Device) -> bool:
            if self.is_busy:
                raise EvaluationEnded("the selector took too long")
            return True

    busy, cluster = Busy(), Cluster(a_slice("s", device("x")))
    with evaluated_by(busy):
        assert cluster.patch("p", {f"{DRV}/a": 1}, selectors=["true"]) == []
        busy.is_busy = False
        assert cluster.tracker.settle() == []
        cluster.tracker.judge_ended_again()
        cluster.tracker.settle()
        assert cluster.attrs() == {f"{DRV}/a": 1}
        cluster.tracker.judge_ended_again()
        assert cluster.tracker.is_settled


def test_growing_faults_are_reported_again_later_and_those_of_a_new_patch_at_once() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.patch("p", {f"{DRV}/a": 1}, selectors=[f'device.attributes["{DRV}"].only'])
    assert len(cluster.tracker.faults.due(0)) == 1
    cluster.tracker.put_slice(a_slice("t", device("y")))
    cluster.tracker.settle()
    assert cluster.tracker.faults.due(1) == []
    assert [report.devices for report in cluster.tracker.faults.due(AGAIN)] == [2]
    cluster.patch("p", {f"{DRV}/a": 2}, selectors=[f'device.attributes["{DRV}"].only'], generation=2)
    assert len(cluster.tracker.faults.due(AGAIN + 1)) == 1
    cluster.tracker.drop_patch("p")
    assert list(cluster.tracker.faults.reports()) == []


@pytest.mark.scenario("S12")
def test_a_class_may_come_change_and_go() -> None:
    cluster = Cluster(a_slice("s", device("x")), a_slice("t", device("x"), driver=OTHER))
    assert cluster.patch("p", {f"{DRV}/a": 1}, deviceClassName="gpu") == []

    def told(change: Any) -> list[str]:
        change()
        return sorted(new.name for _, new in cluster.tracker.settle() if new)

    put, tracker = cluster.tracker.put_class, cluster.tracker
    assert told(lambda: put(a_class("gpu", f'device.driver == "{DRV}"'))) == ["s"]
    assert told(lambda: put(a_class("gpu", f'device.driver == "{OTHER}"', generation=2))) == ["s", "t"]
    assert told(lambda: put(a_class("gpu", generation=3))) == ["s"]
    assert told(lambda: tracker.drop_class("gpu")) == ["s", "t"]
    assert told(lambda: put(a_class("other"))) == []


@pytest.mark.scenario("S13")
def test_every_criterion_counts() -> None:
    cluster = Cluster(a_slice("s", device("x", {"n": 1})))
    cluster.tracker.put_class(a_class("gpu", "true"))
    cluster.tracker.put_class(a_class("none", "false"))
    fits = {
        "driver": DRV,
        "pool": "p",
        "device": "x",
        "deviceClassName": "gpu",
        "selectors": [f'device.attributes["{DRV}"].n == 1'],
    }
    misses: dict[str, Any] = {
        "driver": OTHER,
        "pool": "q",
        "device": "y",
        "deviceClassName": "none",
        "selectors": ["false"],
    }
    for number, name in enumerate(misses, 1):
        assert cluster.patch("p", {f"{DRV}/a": 1}, generation=number, **{**fits, name: misses[name]}) == []
    assert cluster.patch("p", {f"{DRV}/a": 1}, generation=9, **fits) != []


@pytest.mark.scenario("S14")
def test_each_key_comes_from_its_best_patch() -> None:
    cluster = Cluster(a_slice("s", device("x", {"k0": "driver"})))
    order = [
        ("lowest", -1, "2026-01-01T00:00:00Z"),
        ("unset", None, "2026-01-01T00:00:00Z"),
        ("one", 1, "2026-01-01T00:00:00Z"),
        ("young", 100, "2026-01-02T00:00:00Z"),
        ("old", 100, "2026-01-01T00:00:00Z"),
        ("highest", 1000, "2026-01-03T00:00:00Z"),
    ]
    for number, (name, priority, created) in enumerate(order):
        cluster.patch(name, {f"{DRV}/k{key}": name for key in range(6 - number)}, priority=priority, created=created)
    assert cluster.attrs() == {
        f"{DRV}/k0": "highest",
        f"{DRV}/k1": "old",
        f"{DRV}/k2": "young",
        f"{DRV}/k3": "one",
        f"{DRV}/k4": "unset",
        f"{DRV}/k5": "lowest",
    }


@pytest.mark.scenario("S15")
def test_of_equal_age_the_smaller_name_wins_in_any_order() -> None:
    names = [f"patch-{letter}" for letter in "abcdef"]
    for seed in range(50):
        random.Random(seed).shuffle(names)
        cluster = Cluster(a_slice("s", device("x")))
        for name in names:
            cluster.patch(name, {f"{DRV}/k": name})
        assert cluster.attrs() == {f"{DRV}/k": "patch-a"}


def test_priorities_do_not_overflow() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.patch("low", {f"{DRV}/k": "low"}, priority=-(2**31))
    cluster.patch("high", {f"{DRV}/k": "high"}, priority=2**31 - 1)
    assert cluster.attrs() == {f"{DRV}/k": "high"}


@pytest.mark.scenario("S16")
def test_filters_see_what_drivers_publish() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.patch("a", {"dom.example.com/set": True}, priority=50)
    assert cluster.patch("b", {f"{DRV}/b": 1}, priority=100, selectors=['"dom.example.com" in device.attributes']) == []


@pytest.mark.scenario("S17")
def test_a_slice_that_grows_and_shrinks() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.patch("p", {f"{DRV}/a": 1}, device="y")
    for names, wanted in (("xyz", {"y"}), ("y", {"y"}), ("zyx", {"y"}), ("x", set()), ("yx", {"y"})):
        cluster.tracker.put_slice(a_slice("s", *map(device, names)))
        assert len(cluster.tracker.settle()) == 1
        found = cluster.tracker.get("s")
        assert found is not None
        assert [each.name for each in found.devices] == list(names)
        assert {each.name for each in found.devices if each.attributes} == wanted


@pytest.mark.scenario("S18")
@pytest.mark.parametrize(("high", "low", "wanted"), [(None, 1, {}), (1, None, {f"{DRV}/k": 1})])
def test_null_is_a_value_like_any_other(high: Any, low: Any, wanted: dict[str, Any]) -> None:
    cluster = Cluster(a_slice("s", device("x", {"k": 0})))
    cluster.patch("low", {f"{DRV}/k": low})
    cluster.patch("high", {f"{DRV}/k": high}, priority=1)
    assert cluster.attrs() == wanted


@pytest.mark.scenario("S19")
def test_an_expression_that_no_longer_compiles_is_left_out() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.patch("bad", {f"{DRV}/a": 1}, selectors=["device.gone == 1"])
    cluster.patch("good", {f"{DRV}/b": 1})
    assert cluster.attrs() == {f"{DRV}/b": 1}
    (report,) = cluster.tracker.faults.due(0)
    assert (report.patch, report.reason) == ("bad", "CELCompileError")
    assert "undeclared reference to 'device.gone'" in report.message


def test_a_faulty_selector_of_a_class_is_reported_on_the_patch() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.tracker.put_class(a_class("gpu", "true", f'device.attributes["{DRV}"].no'))
    cluster.patch("p", {f"{DRV}/a": 1}, deviceClassName="gpu")
    (report,) = cluster.tracker.faults.due(0)
    assert report.message.startswith("class gpu: selector #1: runtime error: no such key: no")


@pytest.mark.scenario("S20")
def test_without_the_patch_the_very_object_is_back() -> None:
    cluster = Cluster(a_slice("s", device("x", {"a": 1})))
    cluster.patch("p", {f"{DRV}/a": 2})
    assert cluster.tracker.get("s") is not cluster.tracker.published["s"]
    cluster.tracker.drop_patch("p")
    assert len(cluster.tracker.settle()) == 1
    assert cluster.tracker.get("s") is cluster.tracker.published["s"]


def test_a_patch_that_says_what_is_there_already_changes_nothing() -> None:
    cluster = Cluster(a_slice("s", device("x", {"a": 1})))
    assert cluster.patch("p", {f"{DRV}/a": 1, f"{DRV}/none": None}) == []
    assert cluster.tracker.get("s") is cluster.tracker.published["s"]
    assert cluster.patch("q", {f"{DRV}/a": True}) == []  # the older one says 1
    cluster.tracker.drop_patch("p")
    assert len(cluster.tracker.settle()) == 1  # true is not 1


@pytest.mark.scenario("S21")
def test_patched_taints() -> None:
    own = taint("own", "NoExecute", "driver")
    cluster = Cluster(a_slice("s", device("x", taints=[own])))
    cluster.patch("low", taints=[taint("new", value="low"), taint("own", "NoExecute", "low")], priority=1)
    cluster.patch("high", taints=[taint("new", value="high"), taint("own", "None", "high")], priority=2)
    found = [(each.key, each.effect, each.value) for each in cluster.device().taints]
    assert found == [("own", "NoExecute", "low"), ("new", "NoSchedule", "high"), ("own", "None", "high")]
    off = Cluster(a_slice("s", device("x", taints=[own])), gates=Gates(taints=False))
    assert off.patch("p", taints=[taint("new")]) == []


@pytest.mark.scenario("S22")
def test_each_gate_alone() -> None:
    both: dict[str, Any] = {"attrs": {f"{DRV}/a": 1}, "capacity": {f"{DRV}/c": "1"}, "taints": [taint("k")]}
    for gates in (Gates(a, b) for a in (True, False) for b in (True, False)):
        cluster = Cluster(a_slice("s", device("x")), gates=gates)
        changes = cluster.patch("p", **both)
        found = cluster.device()
        assert bool(changes) == (gates.attributes or gates.taints)
        assert (bool(found.attributes), bool(found.capacity), bool(found.taints)) == (
            gates.attributes,
            gates.attributes,
            gates.taints,
        )


@pytest.mark.scenario("S23")
def test_a_storm_costs_one_rebuild_and_ends_as_from_nothing() -> None:
    published = a_slice("s", *(device(f"d{number}", {"n": number}) for number in range(64)))
    cluster = Cluster(published)
    dice = random.Random(7)
    patches = [
        a_patch(
            f"p{number}",
            {f"{DRV}/k{dice.randrange(20)}": dice.choice([None, number])},
            priority=dice.randrange(5),
            **({"device": f"d{dice.randrange(64)}"} if number % 3 else {}),
        )
        for number in range(1000)
    ]
    before = cluster.tracker.counts.rebuilds
    for patch in patches:
        cluster.tracker.put_patch(patch)
    assert len(cluster.tracker.settle()) == 1
    assert cluster.tracker.counts.rebuilds == before + 1
    (found,) = cluster.tracker.slices()
    assert list(found.devices) == naive([published], patches)["s"]


@pytest.mark.scenario("S45")
def test_absent_selects_nothing_and_empty_everything() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.tracker.put_rule(a_rule("absent", taint("a"), None))
    assert cluster.tracker.settle() == []
    cluster.tracker.put_rule(a_rule("empty", taint("b"), {}))
    cluster.tracker.settle()
    assert [each.key for each in cluster.device().taints] == ["b"]


def test_rule_that_takes_the_place_of_a_patch_between_two_rebuilds_counts() -> None:
    cluster = Cluster(a_slice("s", device("x")))
    cluster.patch("p", taints=[taint("patched")])
    cluster.tracker.drop_patch("p")
    cluster.tracker.put_rule(a_rule("r", taint("ruled"), {}))
    cluster.tracker.settle()
    assert [each.key for each in cluster.device().taints] == ["ruled"]


def test_rules_add_one_taint_each_behind_the_others() -> None:
    cluster = Cluster(a_slice("s", device("x", taints=[taint("own")])))
    cluster.patch("p", taints=[taint("patched")])
    for name in ("b", "a"):
        cluster.tracker.put_rule(a_rule(name, taint("same"), {"driver": DRV, "device": "x"}))
    cluster.tracker.settle()
    assert [each.key for each in cluster.device().taints] == ["own", "patched", "same", "same"]


def test_the_worked_example() -> None:
    """Of the document on patching: P1 older than P2, P3 of higher priority."""
    cluster = Cluster(a_slice("s", device("x", {"model": "A", "numa": 0}, {"memory": "80Gi"})))
    cluster.patch("p1", {f"{DRV}/model": "B", f"{DRV}/numa": None})
    cluster.patch("p2", {f"{DRV}/model": "C", f"{DRV}/zone": "z"}, created="2026-01-02T00:00:00Z")
    cluster.patch("p3", {f"{DRV}/numa": 3}, {f"{DRV}/memory": "0"}, priority=5)
    assert cluster.attrs() == {f"{DRV}/model": "B", f"{DRV}/numa": 3, f"{DRV}/zone": "z"}
    assert cluster.amounts() == {f"{DRV}/memory": "0"}
    cluster.tracker.drop_patch("p1")
    cluster.tracker.settle()
    assert cluster.attrs()[f"{DRV}/model"] == "C"
    cluster.tracker.drop_patch("p3")
    cluster.tracker.settle()
    assert cluster.attrs()[f"{DRV}/numa"] == 0


def test_a_policy_stays_the_drivers_when_the_amount_is_patched() -> None:
    capacity: Any = {"m": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}}
    cluster = Cluster(a_slice("s", device("x", allowMultipleAllocations=True) | {"capacity": capacity}))
    cluster.patch("p", capacity={f"{DRV}/m": "40Gi"})
    amount = cluster.device().capacity[f"{DRV}/m"]
    assert str(amount.value) == "40Gi"
    assert amount.policy is not None
    assert str(amount.policy.default) == "1Gi"


def test_devices_that_stay_as_they_are_cost_no_cel_when_their_slice_is_published_again() -> None:
    devices = [device(f"d{number}", {"n": number}) for number in range(8)]
    cluster = Cluster(a_slice("s", *devices))
    cluster.patch("p", {f"{DRV}/a": 1}, selectors=[f'device.attributes["{DRV}"].n < 4'])
    assert cluster.tracker.counts.evaluations == 8
    kept = cluster.device("d1")
    cluster.tracker.put_slice(a_slice("s", *devices[1:], device("new", {"n": 0}), generation=2))
    cluster.tracker.settle()
    assert cluster.tracker.counts.evaluations == 9
    assert cluster.device("d1") is kept
    assert cluster.attrs("new") == {f"{DRV}/n": 0, f"{DRV}/a": 1}


def test_a_long_rebuild_can_be_done_in_steps() -> None:
    cluster = Cluster(*(a_slice(f"s{number}", device("x"), pool=f"p{number}") for number in range(10)))
    cluster.tracker.put_patch(a_patch("p", {f"{DRV}/a": 1}))
    told, tired = [], iter([False, False, True, True, False] * 4)
    while not cluster.tracker.is_settled:
        some = cluster.tracker.settle(3, lambda: next(tired))
        assert len(some) <= 3
        told += some
    assert len(told) == 10
    assert all(each.devices[0].attributes for each in cluster.tracker.slices())


def test_old_generations_of_a_pool_and_doubled_names_are_patched_like_any_other() -> None:
    old, new = a_slice("s", device("x"), device("x"), generation=1), a_slice("t", device("x"), generation=2)
    cluster = Cluster(new, old)
    cluster.patch("p", {f"{DRV}/a": 1}, device="x")
    assert all(each.attributes for found in cluster.tracker.slices() for each in found.devices)
