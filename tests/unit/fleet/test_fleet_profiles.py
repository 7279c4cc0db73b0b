"""Profiles of a fleet: reading, formulas, expansion to nodes."""

from pathlib import Path

import pytest

from actors.fleet.profiles.expand import NodeTemplate, expand, node_counts, pool_slices
from actors.fleet.profiles.formula import bound, compiled, escape, parse
from actors.fleet.profiles.profile import Profile, read_profile
from protocols.process.scripts import ScriptInvalid, parse_script

GPUS = """
name: gpus
start: 300ms
groups:
- name: gpu
  count: 3
  labels: {example.com/rack: "rack-{n//2}"}
  taints: [{key: example.com/gpu, effect: NoSchedule}]
  capacity: {cpu: 128}
  allocatable: {memory: 500Gi}
  plugins: [{resource: example.com/nic, devices: 4, numa: 2}]
  drivers:
  - driver: gpu.example.com
    slices:
    - devices:
      - name: gpu-{i}
        repeat: 8
        attributes: {numa: {int: "{i//4}"}, uuid: {string: "{node}-{i:02}"}}
        capacity: {memory: {value: 81920Mi}}
  - driver: cpu.example.com
    slices: [{devices: [{name: "cpu{i:03}", repeat: 200}]}]
"""


def read(text: str) -> Profile:
    return parse_script("profile.yaml", text.encode(), Profile)


@pytest.fixture(scope="module")
def nodes() -> list[NodeTemplate]:
    return list(expand(read(GPUS)))


def test_expand_names_and_numbers_nodes(nodes: list[NodeTemplate]) -> None:
    assert [(node.name, node.group, node.index) for node in nodes] == [(f"gpu-{at}", "gpu", at) for at in range(3)]
    assert [node.labels for node in nodes] == [{"example.com/rack": f"rack-{rack}"} for rack in (0, 0, 1)]


def test_capacity_merges_with_machine(nodes: list[NodeTemplate]) -> None:
    capacity = {"cpu": "128", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    assert nodes[0].capacity == capacity
    assert nodes[0].allocatable == {**capacity, "memory": "500Gi"}


def test_plugin_spreads_devices_over_numa(nodes: list[NodeTemplate]) -> None:
    (plugin,) = nodes[0].plugins
    found = [(device.id, device.healthy, device.numa) for device in plugin.devices]
    assert found == [("nic-0", True, (0,)), ("nic-1", True, (0,)), ("nic-2", True, (1,)), ("nic-3", True, (1,))]


def test_slices_are_complete_specs(nodes: list[NodeTemplate]) -> None:
    (spec,) = nodes[1].drivers[0].slices
    assert spec["driver"] == "gpu.example.com"
    assert spec["nodeName"] == "gpu-1"
    assert spec["pool"] == {"name": "gpu-1", "generation": 1, "resourceSliceCount": 1}
    assert spec["devices"][5] == {
        "name": "gpu-5",
        "attributes": {"numa": {"int": 1}, "uuid": {"string": "gpu-1-05"}},
        "capacity": {"memory": {"value": "80Gi"}},
    }


def test_many_devices_become_several_slices(nodes: list[NodeTemplate]) -> None:
    slices = nodes[0].drivers[1].slices
    assert [len(spec["devices"]) for spec in slices] == [128, 72]
    assert {spec["pool"]["resourceSliceCount"] for spec in slices} == {2}


def test_common_parts_are_shared(nodes: list[NodeTemplate]) -> None:
    first, second, _ = nodes
    assert first.drivers[1].slices[0]["devices"] is second.drivers[1].slices[0]["devices"]
    for field in ("taints", "capacity", "allocatable", "plugins"):
        assert getattr(first, field) is getattr(second, field)
    one, other = (node.drivers[0].slices[0]["devices"] for node in (first, second))
    assert one[0]["capacity"] is other[0]["capacity"]


def test_same_driver_in_two_pools_is_one_driver() -> None:
    text = (
        "{name: x, groups: [{name: a, drivers: [{driver: d.example.com}, {driver: d.example.com, pool: '{node}/b'}]}]}"
    )
    (node,) = expand(read(text))
    assert [[spec["pool"]["name"] for spec in driver.slices] for driver in node.drivers] == [["a-0", "a-0/b"]]


@pytest.mark.parametrize(
    ("counts", "nodes", "expected"),
    [((3, 1), None, [3, 1]), ((3, 1), 8, [6, 2]), ((1, 1, 1), 2, [1, 1, 0]), ((5, 2), 3, [2, 1])],
)
def test_nodes_scale_in_proportion(counts: tuple[int, ...], nodes: int | None, expected: list[int]) -> None:
    groups = ", ".join(f"{{name: g{at}, count: {count}}}" for at, count in enumerate(counts))
    assert node_counts(read(f"{{name: x, groups: [{groups}]}}"), nodes) == expected


@pytest.mark.parametrize("nodes", [-1, 0, 20_001])
def test_wrong_number_of_nodes_is_an_error(nodes: int) -> None:
    with pytest.raises(ScriptInvalid, match="give 1 to 20000"):
        list(expand(read("{name: x, groups: [{name: a}]}"), nodes))


def test_pool_slices_have_no_node() -> None:
    text = """
    name: x
    pools:
    - name: fabric
      driver: fabric.example.com
      slices:
      - perDeviceNodeSelection: true
        devices: [{name: "link-{i}", repeat: 4, nodeName: "a-{i//2}"}]
      - allNodes: true
        sharedCounters: [{name: "set-{i}", repeat: 9, counters: {links: {value: 4}}}]
    """
    first, *sets = pool_slices(read(text))
    assert first == {
        "driver": "fabric.example.com",
        "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 3},
        "perDeviceNodeSelection": True,
        "devices": [{"name": f"link-{at}", "nodeName": f"a-{at // 2}"} for at in range(4)],
    }
    assert [len(spec["sharedCounters"]) for spec in sets] == [8, 1]
    assert sets[0]["sharedCounters"][0] == {"name": "set-0", "counters": {"links": {"value": "4"}}}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu-{i}", "gpu-13"),
        ("{i//4}{i%4}", "31"),
        ("{(i + n*2) % 7:03}", "003"),
        ("{node}", "node-a"),
        ("{{x}}{i}", "{x}13"),
        ("{{x}}", "{x}"),
        ("plain", "plain"),
    ],
)
def test_formula_gives_text(text: str, shown: str) -> None:
    assert bound(compiled(text), {"i": 13, "n": 2, "node": "node-a"}) == shown


def test_formula_binds_in_steps_and_keys() -> None:
    value = compiled({"slice-{i}": [{"int": "{i*n}"}, {"string": "{i}"}]})
    assert bound(bound(value, {"i": 3}), {"n": 5}) == {"slice-3": [{"int": 15}, {"string": "3"}]}


WRONG = ("{", "}", "{}", "{x}", "{i/2}", "{i//0}", "{i//n}", "{i**i}", "{node+1}", "{1}", "{i.real}", "{i:x}", "{i()}")


@pytest.mark.parametrize("text", [*WRONG, "{" + "i+" * 40 + "i}"])
def test_wrong_formula_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"brace|formula"):
        parse(text)


@pytest.mark.parametrize("text", ["{node}", "a{i}", "{i}{i}"])
def test_formula_that_gives_no_number_is_an_error_for_a_number(text: str) -> None:
    with pytest.raises(ValueError, match="is no number"):
        compiled({"int": text})


def test_escaped_text_is_read_as_it_was() -> None:
    assert parse(escape("a{i}}b{{")) == "a{i}}b{{"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{name: x, grups: []}", "unknown key"),
        ("{name: x, groups: [{name: a}, {name: a}]}", "the group 'a' is listed twice"),
        ("{name: x, groups: [{name: A_b}]}", "no prefix of node names"),
        ("{name: x, groups: [{name: a, count: 20001}]}", "count must be 0 to 20000 at groups[0]"),
        ("{name: x, groups: [{name: a, count: 20000}, {name: b}]}", "20001 nodes are too many"),
        ("{name: x, groups: [{name: a, capacity: {cpu: lots}}]}", "cpu: not a quantity"),
        ("{name: x, groups: [{name: a, labels: {x: '{i}'}}]}", "a formula here has no i at groups[0]"),
        ("{name: x, groups: [{name: a, plugins: [{resource: cpu, devices: 1}]}]}", "is no extended resource"),
        ("{name: x, groups: [{name: a, plugins: [{resource: a.b/c, devices: 5000}]}]}", "devices must be 0 to 4096"),
        ("{name: x, groups: [{name: a, drivers: [{driver: d, slices: [{allNodes: true}]}]}]}", "go with pools"),
        (
            "{name: x, groups: [{name: a, drivers: [{driver: d, slices: [{devices: [{name: b, repeat: 2}]}]}]}]}",
            "needs a formula with i, such as {i} at groups[0].drivers[0].slices[0].devices[0]",
        ),
        (
            "{name: x,groups: [{name: a, drivers: [{driver: d, slices: [{devices: [{name: '{i}', repeat: 5000}]}]}]}]}",
            "5000 devices or counter sets are too many; 4096 are the limit",
        ),
        ("{name: x, pools: [{name: p, driver: d, slices: [{devices: [{name: '{n}'}]}]}]}", "a formula here has no n"),
        ("{name: x, pools: [{name: p, driver: d, slices: [{devices: [{name: a, taints: [{key: x}]}]}]}]}", "timeAdded"),
        ("{name: x, pools: [{name: p, driver: d, slices: [{nodeSelector: {a: '{'}}]}]}", "slices[0]"),
        ("{name: x, pools: [{name: p, driver: d, slices: [{nodeSelector: {a: '{i}'}}]}]}", "a formula here has no i"),
        ("{name: x, start: -1s}", "is no time"),
    ],
)
def test_wrong_profile_is_an_error_that_names_the_place(text: str, error: str) -> None:
    with pytest.raises(ScriptInvalid) as found:
        read(text)
    assert error in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("device", "error"),
    [
        ("{name: a, attributes: {x: {int: 'no'}}}", "cannot unmarshal string"),
        ("{name: a, attributes: {x: {float: 1}}}", "unknown key spec.devices[0].attributes.x.float"),
    ],
)
def test_wrong_shape_of_a_device_is_an_error(device: str, error: str) -> None:
    text = f"{{name: x, groups: [{{name: a, drivers: [{{driver: d, slices: [{{devices: [{device}]}}]}}]}}]}}"
    with pytest.raises(ScriptInvalid) as found:
        list(expand(read(text)))
    assert error in str(found.value)


def test_read_profile_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "gpus.yaml").write_text(GPUS)
    assert read_profile(tmp_path / "gpus.yaml") == read(GPUS)
