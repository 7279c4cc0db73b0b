"""The profiles that nodeplane brings along, and the check of what a profile expands to."""

import copy
import re
from pathlib import Path

import msgspec
import pytest
import yaml

from actors.fleet.actor import DEFAULT_NAME
from actors.fleet.profiles.catalog import builtin_profiles, find_profile
from actors.fleet.profiles.expand import expand, node_counts, pool_slices
from actors.fleet.profiles.formula import bound, compiled
from actors.fleet.profiles.profile import (
    CounterSetSpec,
    DeviceSpec,
    DriverSpec,
    NodeGroup,
    PluginSpec,
    PoolSpec,
    Profile,
    SliceSpec,
    TaintSpec,
)
from protocols.kinds.dra.slices import SliceStrategy
from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object
from protocols.messages.fleet import FLEET
from protocols.process.scripts import ScriptInvalid

EXAMPLES = Path(__file__).parents[3] / "examples"
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "fleet-profiles.md").read_text()
NAMES = (
    "backtracking", "cpus-grouped", "cpus-individual", "devices", "fabric", "gpus", "mixed", "partitions", "pool",
    "shares",
)  # fmt: skip


def slices(name: str, nodes: int) -> list[Object]:
    profile = find_profile(name)
    own = [spec for node in expand(profile, nodes) for driver in node.drivers for spec in driver.slices]
    return [*own, *pool_slices(profile)]


def test_builtin_names_are_these() -> None:
    assert tuple(builtin_profiles()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_slices_of_builtin_are_stored_by_the_api_as_they_are(name: str) -> None:
    shape = kind_shape("resource.k8s.io", "v1", "ResourceSlice")
    assert shape is not None
    for spec in slices(name, 3):
        body = copy.deepcopy(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {}, "spec": spec}
        )
        assert clean(body, shape) == []
        SliceStrategy().prepare_create(body)
        assert SliceStrategy().validate_create(body) == []
        assert body["spec"] == spec


@pytest.mark.parametrize("name", NAMES)
def test_pools_of_builtin_are_complete(name: str) -> None:
    pools: dict[tuple[str, str], list[Object]] = {}
    for spec in slices(name, 10):
        pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
    for specs in pools.values():
        assert {spec["pool"]["resourceSliceCount"] for spec in specs} == {len(specs)}
        devices = [device for spec in specs for device in spec.get("devices", ())]
        sets = {counters["name"]: counters["counters"] for spec in specs for counters in spec.get("sharedCounters", ())}
        assert len({device["name"] for device in devices}) == len(devices)
        for use in (use for device in devices for use in device.get("consumesCounters", ())):
            assert use["counters"].keys() <= sets[use["counterSet"]].keys()


def test_individual_cpus_are_ordered_as_by_the_driver() -> None:
    """Two sockets, 16 cores each, whose second threads have the upper half of the CPU numbers."""
    cpus = {cpu: (cpu % 32 // 16, cpu % 16) for cpu in range(64)}
    ordered = sorted(cpus, key=lambda cpu: (cpus[cpu], cpu))
    devices = slices("cpus-individual", 1)[0]["devices"]
    assert [device["name"] for device in devices] == [f"cpudev{at:03}" for at in range(64)]
    attributes = [device["attributes"] for device in devices]
    assert [attribute["dra.cpu/cpuID"]["int"] for attribute in attributes] == ordered
    assert [(attribute["dra.cpu/socketID"]["int"], attribute["dra.cpu/coreID"]["int"]) for attribute in attributes] == [
        cpus[cpu] for cpu in ordered
    ]
    assert [attribute["dra.cpu/cacheL3ID"]["int"] for attribute in attributes] == [cpu % 32 // 8 for cpu in ordered]


def test_find_profile_takes_a_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{name: mine, groups: [{name: a}]}")
    assert find_profile(str(path)).name == "mine"


def test_find_profile_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(
        ScriptInvalid, match=r"'gpu' is neither a file nor a profile; there are backtracking, cpus-grouped,.*, shares"
    ):
        find_profile("gpu")


DRIVER = "{name: mine, groups: [{name: a, count: 2, drivers: [{driver: d.example.com, slices: [{devices: [%s]}]}]}]}"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (DRIVER % "{name: A}", "profile mine, node a-0, driver d.example.com: spec.devices[0].name: Invalid value"),
        (DRIVER % "{name: a}, {name: a}", "node a-0, driver d.example.com: spec.devices[1].name: Duplicate value"),
        (DRIVER % "{name: '{9-n*10}'}", "node a-1, driver d.example.com: spec.devices[0].name: Invalid value"),
        (DRIVER % "{name: a, nodeName: b}", "can only be set if `perDeviceNodeSelection`"),
        ("{name: mine, groups: [{name: a, count: 0, labels: {a b: c}}]}", "node a-0: labels: Invalid value"),
        (
            "{name: mine, groups: [{name: a, taints: [{key: a, effect: Never}]}]}",
            "metadata.taints[0].effect: Unsupported",
        ),
        ("{name: mine, groups: [{name: a, capacity: {pods: 1.5}}]}", "status.capacity.pods: Invalid value"),
        ("{name: mine, pools: [{name: p, driver: d, slices: [{}]}]}", "profile mine, pool p: spec: Required value"),
    ],
)
def test_what_the_api_rejects_is_an_error_that_names_the_place(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ScriptInvalid) as found:
        find_profile(str(tmp_path / "mine.yaml"))
    assert error in str(found.value)
    assert "\n" not in str(found.value)


STRUCTS = (Profile, NodeGroup, TaintSpec, PluginSpec, DriverSpec, PoolSpec, SliceSpec, DeviceSpec, CounterSetSpec)


@pytest.mark.parametrize("struct", STRUCTS)
def test_reference_page_has_every_field(struct: type[msgspec.Struct]) -> None:
    section = PAGE.partition(f"### {struct.__name__}\n")[2].partition("\n#")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(struct.__struct_encode_fields__)


def test_reference_page_has_every_builtin() -> None:
    section = PAGE.partition("## Profiles that nodeplane brings along\n")[2].partition("\n#")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)) == list(NAMES)


def test_reference_page_example_is_a_profile(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(PAGE.partition("```yaml\n")[2].partition("```")[0])
    lab = find_profile(str(tmp_path / "lab.yaml"), 1000)
    assert (lab.node_count, node_counts(lab, 1000)) == (64, [250, 750])


def test_reference_page_formulas_give_what_it_says() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \| `([^`]+)`", PAGE.partition("| with i = 13 |")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert len(rows) == 5
    assert [bound(compiled(formula), {"i": 13}) for formula, _ in rows] == [shown for _, shown in rows]


def test_example_deployment_wants_devices_of_the_profile() -> None:
    (spec, *_) = slices("gpus", 1)
    device_class, _, deployment = yaml.safe_load_all((EXAMPLES / "fleet-deployment.yaml").read_text())
    assert device_class["spec"]["selectors"][0]["cel"]["expression"] == f"device.driver == '{spec['driver']}'"
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {FLEET: DEFAULT_NAME}
