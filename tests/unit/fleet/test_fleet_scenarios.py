"""Scenarios and their figures."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.fleet.profiles.catalog import find_profile
from actors.fleet.workload.figures import ScenarioFigures, Startups, quantile, table
from actors.fleet.workload.objects import ScenarioObjects
from actors.fleet.workload.runner import cpu_seconds
from actors.fleet.workload.scenario import ClaimDevices, RequestSpec, Scenario, builtin_scenarios, find_scenario
from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.table import DEVICECLASSES, DEVICETAINTRULES, PODS, RESOURCECLAIMTEMPLATES, Resource
from protocols.kube.meta import Object
from protocols.process.scripts import ScriptInvalid


@pytest.mark.parametrize("name", builtin_scenarios())
def test_scenario_that_comes_along_has_a_profile_with_its_devices(name: str) -> None:
    found = find_scenario(name)
    assert found is not None
    profile, scenario = find_profile(found.profile, found.scenario.nodes), found.scenario
    offered = {driver.driver for group in profile.groups for driver in group.drivers}
    offered |= {plugin.resource for group in profile.groups for plugin in group.plugins}
    assert {scenario.driver or scenario.resource} - {""} <= offered
    assert scenario.filling(scenario.nodes) + scenario.steady_rate(scenario.nodes) * scenario.lives <= (
        scenario.per_node * scenario.nodes
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nodes: 3\ndriver: a.b\nresource: c.d/e\npodsPerClaim: 2", "the scheduler makes the claims"),
        ("nodes: 3\ntaint: {key: a, effect: NoSchedule}", "need a driver"),
        ("nodes: 3\ndriver: a.b\ndevices: {requests: [{name: x, exactly: {}, count: 2}]}", "unknown key `count`"),
        ("nodes: 3\ntogether: 4\nlives: 0", "must end"),
        ("nodes: 3\ntogether: 2000", "together and podsPerClaim must be 0 to 1000"),
        ("nodes: 3\nresource: gpu", "no extended resource"),
        ("nodes: 3\ndriver: Gpu", "driver 'Gpu'"),
        ("nodes: 3\ndriver: a.b\nfill: 2", "fill must be 0 to 1"),
        ("nodes: 3\ndriver: a.b\nrate: 1000\nseconds: 1h", "at most 100000 pods"),
        ("nodes: 3\ndriver: a.b\nspeed: 3", "unknown key `speed`"),
    ],
)
def test_scenario_that_says_nothing_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(f"profile: gpus\n{text}\n")
    with pytest.raises(ScriptInvalid, match=says):
        find_scenario(str(path))


def test_profile_beyond_a_mebibyte_is_no_scenario(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(f"name: large\ngroups: []\n#{'x' * (1 << 20)}")
    assert find_scenario(str(path)) is None


def test_objects_of_a_scenario_are_valid_and_name_its_class() -> None:
    for name in builtin_scenarios():
        found = find_scenario(name)
        assert found is not None
        objects = ScenarioObjects(found.scenario, "f", "fleet-f-1")
        made: list[tuple[Resource, Object]] = [(PODS, objects.pod("p", {}))]
        if found.scenario.driver:
            made += [(DEVICECLASSES, objects.device_class()), (RESOURCECLAIMTEMPLATES, objects.claim_template())]
        if found.scenario.taint:
            made += [(DEVICETAINTRULES, objects.taint_rule())]
        for resource, obj in made:
            shape, read = kind_shape(resource.group, resource.version, resource.kind), copy.deepcopy(obj)
            assert shape is not None
            assert clean(read, shape) == [], name


def test_requests_without_a_class_get_that_of_the_scenario() -> None:
    alternatives = ({"name": "a", "deviceClassName": "other"}, {"name": "b"})
    devices = ClaimDevices(
        requests=(RequestSpec(name="x", exactly={"count": 2}), RequestSpec(name="y", first_available=alternatives)),
        constraints=({"matchAttribute": "a.b/c"},),
    )
    scenario = Scenario(profile="p", nodes=1, driver="a.b", devices=devices)
    assert ScenarioObjects(scenario, "f", "s").claim("c")["spec"] == {
        "devices": {
            "requests": [
                {"name": "x", "exactly": {"deviceClassName": "s.a.b", "count": 2}},
                {
                    "name": "y",
                    "firstAvailable": [
                        {"name": "a", "deviceClassName": "other"},
                        {"name": "b", "deviceClassName": "s.a.b"},
                    ],
                },
            ],
            "constraints": [{"matchAttribute": "a.b/c"}],
        }
    }


def test_pod_has_what_its_scenario_gives_it() -> None:
    def spec(claim: str = "", **fields: Any) -> Any:
        return ScenarioObjects(Scenario(profile="p", nodes=1, **fields), "f", "s").pod("p", {}, claim)["spec"]

    own = spec(driver="a.b")
    assert own["resourceClaims"] == [{"name": "device", "resourceClaimTemplateName": "device"}]
    assert spec("fill-3", driver="a.b")["resourceClaims"] == [{"name": "device", "resourceClaimName": "fill-3"}]
    extended = spec(driver="a.b", resource="c.d/e")
    assert "resourceClaims" not in extended
    assert extended["containers"][0]["resources"] == {"limits": {"c.d/e": "1"}}
    assert "resources" not in spec()["containers"][0]


def test_profile_beside_a_scenario_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\ngroups: [{name: a, count: 1}]\n")
    path = tmp_path / "scenario.yaml"
    path.write_text("profile: mine.yaml\nnodes: 1\ndriver: a.b\n")
    found = find_scenario(str(path))
    assert found is not None
    assert found.profile == str(tmp_path / "mine.yaml")
    assert find_scenario(found.profile) is None


def test_figures_count_each_pod_of_the_phase_once() -> None:
    startups = Startups("fill")
    for number in range(10):
        startups.created(f"p{number}", 100.0)
        startups.ran(f"p{number}", 101.0 + number)
        startups.ran(f"p{number}", 500.0)
    startups.created("late", 100.0)
    startups.ran("of another phase", 100.0)
    figures = startups.figures({"store": 0.5, "idle": 0.0})
    assert (figures.pods, figures.running, startups.waiting) == (11, 10, 1)
    assert (figures.p50, figures.p90, figures.p99, figures.most) == (5.0, 9.0, 10.0, 10.0)
    assert figures.pods_per_s == 1.0
    assert figures.cpu == {"store": 50.0}
    shown = table(ScenarioFigures("x", 3, 0.1, (figures,)))
    assert shown[1].split() == ["fill", "11", "10", "1.0", "5.00", "9.00", "10.00", "10.00"]
    assert shown[2] == "CPU ms a pod, fill: store 50.0"


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_quantile_is_a_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = quantile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered)


def test_cpu_of_this_process_is_found_by_name() -> None:
    own = Path("/proc/self/comm").read_text().strip()
    assert cpu_seconds(0, frozenset({own}))[own] > 0
    assert cpu_seconds(0) == {}
