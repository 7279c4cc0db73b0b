"""Profiles recorded from nodes and slices expand to the same again."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.fleet.command import _drained
from actors.fleet.profiles.catalog import builtin_profiles, check_profile, find_profile
from actors.fleet.profiles.expand import NodeTemplate, expand, pool_slices
from actors.fleet.profiles.profile import MACHINE, Profile, read_profile
from actors.fleet.profiles.record import NotRecorded, profile_text, record
from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.shapes.shape import STRUCT, Shape
from protocols.process.scripts import parse_script


def node_object(node: NodeTemplate) -> Any:
    """Return the node as a cluster has it."""
    plugins = {plugin.resource: str(len(plugin.devices)) for plugin in node.plugins}
    taints = list(node.taints)
    return {
        "metadata": {"name": node.name, "labels": node.labels},
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": {**node.capacity, **plugins}, "allocatable": {**node.allocatable, **plugins}},
    }


def slice_objects(nodes: Iterable[NodeTemplate]) -> list[Any]:
    return [{"spec": spec} for node in nodes for driver in node.drivers for spec in driver.slices]


def cluster(profile: Profile) -> tuple[list[Any], list[Any]]:
    nodes = list(expand(profile))
    return list(map(node_object, nodes)), [*slice_objects(nodes), *({"spec": spec} for spec in pool_slices(profile))]


def facts(nodes: list[Any], slices: list[Any]) -> Counter[str]:
    """Return what each node has, without its name, and how many nodes have it."""
    found = Counter[str]()
    for node in nodes:
        name = node["metadata"]["name"]
        own = sorted(canonical(obj["spec"]) for obj in slices if obj["spec"].get("nodeName") == name)
        fields = {field: node["status"].get(field) or {} for field in ("capacity", "allocatable")}
        fields["allocatable"] = fields["allocatable"] or fields["capacity"]
        quantities = {field: {**dict.fromkeys(MACHINE, "0"), **value} for field, value in fields.items()}
        whole = [node["metadata"].get("labels"), node["spec"].get("taints"), quantities, own]
        found[canonical(whole).replace(name, "NODE")] += 1
    return found


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def again(profile: Profile, path: Path) -> Profile:
    """Write the profile to a file and read it."""
    path.write_text(profile_text(profile))
    found = read_profile(path)
    check_profile(found)
    return found


@pytest.mark.parametrize("name", builtin_profiles())
def test_recorded_builtin_expands_to_the_same(name: str, tmp_path: Path) -> None:
    profile = find_profile(name)
    nodes, slices = cluster(profile)
    recorded = again(record(nodes, slices), tmp_path / "recorded.yaml")
    assert facts(*cluster(recorded)) == facts(nodes, slices)
    assert sorted(map(canonical, pool_slices(recorded))) == sorted(map(canonical, pool_slices(profile)))
    assert recorded.node_count == profile.node_count
    alike = {canonical([node.labels, node.group]) for node in expand(profile)}
    assert len(recorded.groups) == len(alike)


SHAPE = kind_shape("resource.k8s.io", "v1", "ResourceSlice") or Shape(STRUCT)
NAMES = st.lists(st.integers(1, 99), unique=True, min_size=1, max_size=6).map(lambda all: [f"host{at}" for at in all])
TEXT = st.text(st.sampled_from("ab{}n/.-+ é'\"#%:\n"), max_size=12)
NAME = st.text("abc123", min_size=1, max_size=6)
ATTRIBUTE = st.one_of(
    st.builds(lambda value: {"string": value}, TEXT),
    st.builds(lambda value: {"int": value}, st.integers(-5, 2**40)),
    st.builds(lambda value: {"bool": value}, st.booleans()),
    st.just({"version": "1.2.3"}),
    st.just({"string": "HOST-x"}),
)
QUANTITY = st.sampled_from(["1", "40Gi", "1500m", "3"])
DEVICE = st.fixed_dictionaries(
    {"name": NAME, "attributes": st.dictionaries(NAME.map("x".__add__), ATTRIBUTE, max_size=3)},
    optional={
        "capacity": st.dictionaries(
            NAME.map("x".__add__), st.builds(lambda value: {"value": value}, QUANTITY), max_size=2
        ),
        "allowMultipleAllocations": st.booleans(),
        "taints": st.just([{"key": "a/b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]),
    },
)
CONTENT = st.one_of(
    st.lists(DEVICE, max_size=4, unique_by=lambda device: str(device["name"])).map(lambda found: {"devices": found}),
    st.just({"sharedCounters": [{"name": "set", "counters": {"x": {"value": "1"}}}]}),
)
MACHINES = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(NAME, st.sampled_from(["", "a", "HOST", "x-HOST"]), max_size=2),
        "capacity": st.dictionaries(st.sampled_from([*MACHINE, "hugepages-2Mi", "a.b/c", "a.b/d"]), QUANTITY),
        "drivers": st.dictionaries(st.sampled_from(["d.example.com", "e.example.com"]), st.lists(CONTENT, max_size=3)),
        "pool": st.sampled_from(["HOST", "HOST/a", "pool-of-HOST"]),
    }
)


def machine_objects(name: str, machine: Any) -> tuple[Any, list[Any]]:
    """Return a node and its slices, as the API stores them."""
    mine = json.loads(canonical(machine).replace("HOST", name))
    node = {"metadata": {"name": name, "labels": mine["labels"]}, "spec": {}, "status": {"capacity": mine["capacity"]}}
    slices = []
    for driver, contents in mine["drivers"].items():
        pool = {"name": mine["pool"], "generation": 1, "resourceSliceCount": len(contents)}
        for content in contents:
            spec = {"driver": driver, "nodeName": name, "pool": pool, **content}
            clean({"metadata": {}, "spec": spec}, SHAPE)
            slices.append({"spec": spec})
    return node, slices


@given(names=NAMES, machines=st.lists(MACHINES, min_size=1, max_size=3))
def test_recorded_cluster_expands_to_the_same(names: list[str], machines: list[Any]) -> None:
    objects = [machine_objects(name, machines[at % len(machines)]) for at, name in enumerate(names)]
    nodes, slices = [node for node, _ in objects], [each for _, found in objects for each in found]
    recorded = parse_script("recorded", profile_text(record(nodes, slices)).encode(), Profile)
    assert facts(*cluster(recorded)) == facts(nodes, slices)
    assert len(recorded.groups) <= len(machines)


def shape_facts(nodes: list[Any], slices: list[Any]) -> Counter[str]:
    """Return what anonymity changes nothing of: quantities, and how much is in each slice."""
    found = Counter[str]()
    for each in nodes:
        own = [spec for item in slices if (spec := item["spec"]).get("nodeName") == each["metadata"]["name"]]
        values = [
            sorted(device.get("capacity", {}).values(), key=canonical)
            for spec in own
            for device in spec.get("devices", [])
        ]
        capacity = {**dict.fromkeys(MACHINE, "0"), **each["status"]["capacity"]}
        sizes = sorted((len(spec.get("devices", [])), len(spec.get("sharedCounters", []))) for spec in own)
        found[canonical([sorted(capacity.values()), sizes, sorted(values, key=canonical)])] += 1
    return found


@given(names=NAMES, machines=st.lists(MACHINES, min_size=1, max_size=3))
def test_anonymous_cluster_expands_to_as_much(names: list[str], machines: list[Any]) -> None:
    objects = [machine_objects(name, machines[at % len(machines)]) for at, name in enumerate(names)]
    nodes, slices = [node for node, _ in objects], [each for _, found in objects for each in found]
    recorded = record(nodes, slices, anonymous=True)
    assert shape_facts(*cluster(recorded)) == shape_facts(nodes, slices)
    assert "host" not in profile_text(recorded)
    assert len(recorded.groups) <= len(machines)


def node(name: str, **labels: str) -> Any:
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}}


def fabric(place: dict[str, Any], generation: int = 1, **content: Any) -> Any:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    return {"spec": {"driver": "d.example.com", "pool": pool, **place, **content}}


def test_pool_of_several_nodes_gets_their_new_names() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["host7"]}
    devices = [
        {"name": "a", "nodeName": "host3"},
        {"name": "b", "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}},
    ]
    profile = record([node("host3"), node("host7")], [fabric({"perDeviceNodeSelection": True}, devices=devices)])
    assert [each.name for each in expand(profile)] == ["host-0", "host-1"]
    (spec,) = pool_slices(profile)
    assert spec["devices"][0]["nodeName"] == "host-0"
    assert spec["devices"][1]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["host-1"]


def test_pool_with_slices_of_two_nodes_selects_them_by_name() -> None:
    slices = [fabric({"nodeName": name}, devices=[{"name": f"of-{name}"}]) for name in ("host3", "host7")]
    first, second = pool_slices(record([node("host3"), node("host7")], slices))
    assert [spec["pool"]["resourceSliceCount"] for spec in (first, second)] == [2, 2]
    (term,) = second["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["host-1"]}]}


@pytest.mark.parametrize("anonymous", [False, True])
def test_slices_are_read_once_and_may_go_meanwhile(anonymous: bool) -> None:
    """What the API listed was held beside its copy: 775 MB for 200,000 devices."""
    nodes, slices = cluster(find_profile(min(builtin_profiles())))
    wanted = record(nodes, slices, anonymous)
    left = list(slices)
    assert record(nodes, _drained(left), anonymous) == wanted
    assert left == []


def test_newest_generation_of_known_nodes_is_recorded() -> None:
    old = fabric({"nodeName": "host3"}, devices=[{"name": "old"}])
    new = fabric({"nodeName": "host3"}, generation=4, devices=[{"name": "new"}])
    gone: Any = {"spec": {**new["spec"], "nodeName": "gone", "pool": {"name": "gone"}}}
    (found,) = expand(record([node("host3")], [old, new, gone]))
    assert [spec["devices"] for driver in found.drivers for spec in driver.slices] == [[{"name": "new"}]]


def test_fields_that_this_api_does_not_have_are_left_out() -> None:
    attributes = {"roots": {"strings": ["a"]}, "index": {"int": 1, "newer": 2}}
    device = {"name": "a", "attributes": attributes, "newer": {}, "taints": [{"key": "a/b", "effect": "None"}]}
    (found,) = expand(record([node("host3")], [fabric({"nodeName": "host3"}, newer=1, devices=[device])]))
    (kept,) = found.drivers[0].slices[0]["devices"]
    assert kept["attributes"] == {"index": {"int": 1}}
    assert kept["taints"][0]["timeAdded"] == "1970-01-01T00:00:00Z"


def test_hostnames_fleets_and_taints_of_controllers_are_left_out() -> None:
    labels = {"kubernetes.io/hostname": "host3", "nodeplane.dev/fleet": "fleet", "zone": "of-host3", "rack": "a{1}"}
    taints = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "a/b", "effect": "NoExecute"}]
    tainted: Any = {**node("host3", **labels), "spec": {"taints": taints}}
    found = record([tainted], [])
    assert found.groups[0].labels == {"zone": "of-{node}", "rack": "a{{1}}"}
    assert [taint.key for taint in found.groups[0].taints] == ["a/b"]


def test_groups_are_named_after_their_nodes() -> None:
    names = ["ip-10-1.internal", "ip-10-2.internal", "x" * 70, "gpu-1", "gpu-2", "7"]
    kinds = "aabccd"
    found = record([node(name, kind=kind) for name, kind in zip(names, kinds, strict=True)], [])
    assert [group.name for group in found.groups] == ["ip", "x" * 57, "gpu", "node"]


def test_groups_with_the_same_name_are_numbered() -> None:
    found = record([node(f"gpu-{kind}", kind=str(kind)) for kind in range(3)], [])
    assert [group.name for group in found.groups] == ["gpu", "gpu-2", "gpu-3"]


@pytest.mark.parametrize(
    "spec", [None, {"driver": 1}, {"driver": "d", "pool": {"name": 1}}, {"driver": "d", "pool": []}]
)
def test_slice_of_the_wrong_shape_is_a_named_error(spec: Any) -> None:
    with pytest.raises(NotRecorded, match="cannot become a profile"):
        record([node("host3")], [{"spec": spec}])


@pytest.mark.parametrize("status", ["x", {"capacity": {"cpu": "x"}}, {"capacity": ["cpu"]}])
def test_node_of_the_wrong_shape_is_a_named_error(status: Any) -> None:
    wrong: Any = {**node("host3"), "status": status}
    with pytest.raises(NotRecorded, match="cannot become a profile"):
        record([wrong], [])


def test_profile_too_large_to_be_read_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.fleet.profiles.record.MAX_PROFILE_BYTES", 10)
    with pytest.raises(NotRecorded, match="10 are the limit"):
        profile_text(record([node("host3")], []))


def test_no_node_is_no_profile() -> None:
    with pytest.raises(NotRecorded, match="there are no nodes to record; check --selector"):
        record([], [])
