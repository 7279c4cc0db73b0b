"""Server-side apply as laws, over random histories of appliers and updaters of one pod."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.table import TABLE
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.create import prepared, set_defaults
from actors.apiserver.writes.owners import apply, updaters
from actors.apiserver.writes.ownership.apply import ConfigInvalid, OwnedByOthers, applied
from actors.apiserver.writes.ownership.compare import changes, fields_of_new, members, owned
from actors.apiserver.writes.ownership.entries import (
    APPLY,
    MAX_UPDATERS,
    UPDATE,
    Author,
    Entries,
    fields_of,
    sent_entries,
    tracked,
)
from actors.apiserver.writes.ownership.fields import minus, paths, shown, touched, union
from actors.apiserver.writes.patch import apply_mutation
from actors.apiserver.writes.update import replace_mutation
from protocols.kinds.pods.pods import PODS
from protocols.kinds.served.strategy import METADATA
from protocols.kinds.shapes.clean import clean, complete
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.shapes.shape import Shape
from protocols.kube.meta import Object

ONE, TWO = Author("one", APPLY, "v1"), Author("two", APPLY, "v1")
EDITOR = Author("editor", UPDATE, "v1")


def pod_shape() -> Shape:
    shape = kind_shape("", "v1", "Pod")
    assert shape is not None
    return shape


POD = pod_shape()


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


words = st.sampled_from(["a", "b", "c"])
maps = st.dictionaries(words, words, max_size=3)


def _keyed(keys: dict[str, st.SearchStrategy[Any]], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    item = st.fixed_dictionaries(keys, optional=fields)
    return st.lists(item, max_size=3, unique_by=lambda value: tuple(value[key] for key in keys))


containers = _keyed(
    {"name": words},
    image=words,
    env=_keyed({"name": words}, value=words),
    ports=_keyed({"containerPort": st.sampled_from([1, 2])}, name=words),
    args=st.lists(words, max_size=2),
    resources=_some(limits=maps),
)
configs = _some(
    metadata=_some(labels=maps, annotations=maps, finalizers=st.lists(words, max_size=2, unique=True)),
    spec=_some(
        containers=containers,
        nodeSelector=maps,
        hostNetwork=st.booleans(),
        tolerations=st.lists(_some(key=words), max_size=2),
        securityContext=_some(runAsUser=st.integers(0, 2)),
    ),
)


def whole(value: Any) -> Any:
    """Without empty containers: they are there or not, it makes no difference to what anybody owns."""
    if isinstance(value, dict):
        return {key: part for key, item in value.items() if (part := whole(item)) not in ({}, [])}
    return [whole(item) for item in value] if isinstance(value, list) else value


def value_at(obj: Any, path: tuple[str, ...], shape: Shape) -> Any:
    from actors.apiserver.writes.ownership.compare import parts

    for element in path:
        if shape.form == "struct" and obj is not None:
            field = element[2:]
            obj, shape = obj.get(field), shape.fields[field]
            continue
        below = parts(obj, shape) or {}
        if element not in below:
            return None
        obj, shape = below[element]
    return obj if shape.leaf else None if obj is None else True


def step(obj: Object, entries: Entries, config: Object, author: Author, force: bool) -> tuple[Object, Entries]:
    done = applied(obj, config, POD, entries, author, force)
    return done.obj, done.entries


histories = st.lists(st.tuples(st.sampled_from([ONE, TWO, EDITOR]), configs, st.booleans()), max_size=4)


def played(history: list[tuple[Author, Object, bool]]) -> tuple[Object, Entries]:
    obj: Object = {"metadata": {"name": "x"}}
    entries: Entries = []
    for author, config, force in history:
        if author.operation == UPDATE:
            new = copy.deepcopy({**config, "metadata": {"name": "x", **config.get("metadata", {})}})
            complete(new, POD)
            obj, entries = new, tracked(obj, new, POD, author, entries)
            continue
        try:
            obj, entries = step(obj, entries, config, author, force)
        except OwnedByOthers:
            continue
    return obj, entries


@given(histories, configs)
def test_applying_twice_changes_nothing_more(history: list[tuple[Author, Object, bool]], config: Object) -> None:
    obj, entries = played(history)
    once = step(obj, entries, config, ONE, True)
    twice = step(*once, config, ONE, False)
    assert twice == once


@given(histories, configs)
def test_an_apply_without_force_never_touches_what_others_own(
    history: list[tuple[Author, Object, bool]], config: Object
) -> None:
    obj, entries = played(history)
    if not entries:
        return
    before = copy.deepcopy(obj)
    try:
        made, after = step(obj, entries, config, TWO, False)
    except OwnedByOthers:
        made, after = obj, entries
    assert obj == before
    for entry in entries:
        if not TWO.is_of(entry):
            assert entry in after
            for path in paths(entry["fieldsV1"]):
                held = value_at(before, path, POD)
                # Who set a list or struct to null owns no value that another could touch.
                assert held is None or value_at(made, path, POD) == held, shown(path)


@given(configs, configs)
def test_what_two_own_stays_when_one_drops_it(shared: Object, rest: Object) -> None:
    both = step(*step({"metadata": {"name": "x"}}, [], shared, ONE, True), shared, TWO, True)
    made, after = step(*both, rest, TWO, True)
    for path in paths(fields_of(after, ONE)):
        if not touched(owned(rest, POD), _tree(path)):
            assert value_at(made, path, POD) == value_at(shared, path, POD), shown(path)


def _tree(path: tuple[str, ...]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for element in reversed(path):
        tree = {element: tree}
    return tree


@given(histories, configs, configs)
def test_what_was_dropped_and_nobody_else_owns_is_gone(
    history: list[tuple[Author, Object, bool]], first: Object, second: Object
) -> None:
    obj, entries = step(*played(history), first, ONE, True)
    made, after = step(obj, entries, second, ONE, True)
    kept: dict[str, Any] = {}
    for entry in after:
        kept = union(kept, entry["fieldsV1"])
    for path in paths(minus(fields_of(entries, ONE), kept)):
        node: Any = kept
        for element in path:
            node = (node or {}).get(element) if node is not None else None
        if node is None:
            assert not value_at(made, path, POD), shown(path)


@given(histories, configs)
def test_what_is_applied_with_force_stands_and_is_owned(
    history: list[tuple[Author, Object, bool]], config: Object
) -> None:
    obj, entries = step(*played(history), config, ONE, True)
    mine = owned(config, POD)
    assert fields_of(entries, ONE) == mine
    for path in paths(mine):
        assert value_at(obj, path, POD) == value_at(config, path, POD), shown(path)


@given(histories, configs)
def test_an_update_owns_exactly_what_it_changed(history: list[tuple[Author, Object, bool]], config: Object) -> None:
    obj, entries = played(history)
    new = {**config, "metadata": {"name": "x", **config.get("metadata", {})}}
    after = tracked(obj, new, POD, EDITOR, entries)
    done = changes(obj, new, POD)
    assert not minus(done.written, fields_of(after, EDITOR))
    assert not touched(fields_of(after, EDITOR), minus(done.removed, done.written))
    for entry in after:
        if not EDITOR.is_of(entry):
            assert not touched(entry["fieldsV1"], done.written)
    assert tracked(new, copy.deepcopy(new), POD, EDITOR, after) is after


@given(configs)
def test_a_new_object_is_written_as_a_change_of_nothing(config: Object) -> None:
    named = {**config, "kind": "Pod", "metadata": {**config.get("metadata", {}), "name": "p"}, "odd": 1}
    named.setdefault("status", {})
    assert fields_of_new(named, POD) == changes({}, named, POD).written


trees: st.SearchStrategy[Object] = st.recursive(
    st.just({}), lambda inner: st.dictionaries(st.sampled_from(["f:a", "f:b", "."]), inner, max_size=3), max_leaves=8
)


def _normal(tree: dict[str, Any]) -> dict[str, Any]:
    made = {key: {} if key == "." else _normal(node) for key, node in tree.items()}
    return {} if set(made) == {"."} else made


@given(trees, trees)
def test_sets_are_sets(one: dict[str, Any], other: dict[str, Any]) -> None:
    one, other = ({k: v for k, v in _normal(tree).items() if k != "."} for tree in (one, other))
    left, right = set(paths(one)), set(paths(other))
    assert set(paths(union(one, other))) == left | right
    assert set(paths(minus(one, other))) == left - right
    assert left & right <= set(paths(touched(one, other))) <= left


def test_fields_are_written_as_upstream_writes_them() -> None:
    pod = {
        "metadata": {"name": "x", "labels": {"app": "web"}, "finalizers": ["a/b"]},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}], "nodeSelector": {"a": "b"}},
    }
    labels: Object = {"f:labels": {"f:app": {}}, "f:finalizers": {'v:"a/b"': {}}}
    port: Object = {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    container = {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:ports": port}}
    assert owned(pod, POD) == {
        "f:metadata": labels,
        "f:spec": {"f:containers": container, "f:nodeSelector": {}},
    }
    created = changes({}, pod, POD).written
    assert created["f:metadata"]["f:labels"] == {".": {}, "f:app": {}}
    assert set(created["f:spec"]) == {"f:containers", "f:nodeSelector"}


def test_applied_empty_structs_are_owned_and_empty_metadata_is_not() -> None:
    assert owned({"metadata": {"name": "x"}, "spec": {}}, POD) == {"f:spec": {}}
    live, entries = step({}, [], {"spec": {"nodeSelector": {"a": "b"}}}, ONE, True)
    made, entries = step(live, entries, {"spec": {}}, ONE, True)
    assert fields_of(entries, ONE) == {"f:spec": {}}
    assert "nodeSelector" not in made["spec"]


def test_conflicts_name_the_field() -> None:
    entries = tracked({}, {"spec": {"containers": [{"name": "c", "image": "a"}]}}, POD, EDITOR, [])
    live = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "a"}]}}
    with pytest.raises(OwnedByOthers) as caught:
        applied(live, {"spec": {"containers": [{"name": "c", "image": "b"}]}}, POD, entries, ONE)
    assert [shown(path) for _, path in caught.value.fields] == ['.spec.containers[name="c"].image']


def test_what_stood_before_anybody_applied_is_owned_by_no_applier() -> None:
    live = {"metadata": {"name": "x", "labels": {"a": "1"}}}
    with pytest.raises(OwnedByOthers):
        applied(live, {"metadata": {"labels": {"a": "2"}}}, POD, [], ONE)
    done = applied(live, {"metadata": {"labels": {"b": "2"}}}, POD, [], ONE)
    assert [entry["manager"] for entry in done.entries] == ["one", "before-first-apply"]


@pytest.mark.parametrize(
    "config",
    [
        {"spec": {"nonsense": 1}},
        {"spec": {"containers": [{"image": "x"}]}},
        {"spec": {"containers": [{"name": "c"}, {"name": "c"}]}},
    ],
)
def test_bad_configurations_are_refused(config: Object) -> None:
    with pytest.raises(ConfigInvalid):
        applied({}, config, POD, [], ONE)


def test_updaters_are_summed_up_when_they_are_many() -> None:
    obj: Object = {"metadata": {"name": "x", "labels": {}}}
    entries: Entries = []
    for number in range(MAX_UPDATERS + 5):
        new = {"metadata": {"name": "x", "labels": {**obj["metadata"]["labels"], f"l{number}": "1"}}}
        entries = tracked(obj, new, POD, Author(f"m{number}", UPDATE, "v1"), entries)
        obj = new
    assert len(entries) == MAX_UPDATERS
    assert sum(entry["manager"] == "ancient-changes" for entry in entries) == 1


def test_entries_that_clients_send_are_checked() -> None:
    good: Object = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    good |= {"fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {'k:{"b":1, "a":2}': {".": {}}}}}
    found = sent_entries([good])
    assert found is not None
    assert found[0]["fieldsV1"] == {"f:spec": {'k:{"a":2,"b":1}': {}}}
    assert sent_entries([{}]) == []
    for bad in (None, [], "x", [3], [{**good, "operation": "Guess"}], [{**good, "fieldsV1": {"spec": {}}}]):
        assert sent_entries(bad) is None


elements = st.sampled_from(["f:spec", "f:metadata", ".", 'k:{"name":"c"}', "k:[]", "v:1", "k:{", "i:0", "x", ""])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["Apply", "FieldsV1", "v1", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(elements, inner, max_size=4),
    max_leaves=12,
)
sent = st.lists(
    st.fixed_dictionaries(
        {
            "operation": st.sampled_from(["Apply", "Update"]),
            "fieldsV1": st.dictionaries(elements, json_values, max_size=4),
        },
        optional={
            "manager": st.sampled_from(["m", "", 3]),
            "time": st.sampled_from(["", "x", None]),
            "apiVersion": words,
        },
    )
    | json_values,
    max_size=3,
)


@settings(deadline=None)
@given(sent, configs)
def test_whatever_clients_send_does_no_harm(value: Any, config: Object) -> None:
    entries = sent_entries(value) or []
    obj: Object = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}}
    applied(obj, config, POD, entries, ONE, True)
    tracked(obj, config, POD, EDITOR, entries)


def test_lists_that_break_their_rules_are_owned_as_a_whole() -> None:
    env = [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]
    pod = {"spec": {"containers": [{"name": "c", "env": env}]}}
    assert members(pod["spec"], POD.fields["spec"])["f:containers"]['k:{"name":"c"}']["f:env"] == {}


def test_create_status_of_the_server_has_no_owner() -> None:
    target = Target(PODS, "create", "ns", "")
    container = {"name": "c", "image": "i"}
    body: Object = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    clean(body, POD)
    change = Change(target, User("me"), new=body)
    set_defaults(change, updaters(target, WriteOptions(manager="creator")), None)
    stored = msgspec.json.decode(prepared(change))
    assert stored["status"]["phase"] == "Pending"
    assert "f:status" not in stored["metadata"]["managedFields"][0]["fieldsV1"]
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}
    kubelet = Target(PODS, "patch", "ns", "p", "status")
    done = apply(kubelet, status, WriteOptions(manager="kubelet"), stored)
    assert done.obj["status"]["phase"] == "Running"


def test_fields_of_new_struct_that_always_exists_is_not_owned_itself() -> None:
    claim = kind_shape("resource.k8s.io", "v1", "ResourceClaim")
    assert claim is not None
    body: Object = {"metadata": {}, "spec": {"devices": {"requests": [{"name": "r"}]}}, "status": {}}
    assert fields_of_new(body, claim) == {"f:spec": {"f:devices": {"f:requests": {}}}}
    role = kind_shape("rbac.authorization.k8s.io", "v1", "ClusterRole")
    assert role is not None
    body = {"metadata": {}, "aggregationRule": {"clusterRoleSelectors": [{}]}, "rules": None}
    assert fields_of_new(body, role) == {"f:aggregationRule": {".": {}, "f:clusterRoleSelectors": {}}}


def test_field_that_becomes_null_is_owned_by_its_writer() -> None:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    old = {"metadata": {}, "status": {"conditions": [condition]}}
    new = {"metadata": {}, "status": {"conditions": [{**condition, "status": "True", "lastTransitionTime": None}]}}
    found = changes(old, new, pod_shape())
    entry: Object = {'k:{"type":"Ready"}': {"f:status": {}, "f:lastTransitionTime": {}}}
    assert found.written == {"f:status": {"f:conditions": entry}}
    assert found.removed == {}


@pytest.mark.parametrize(
    ("plural", "kept", "owner"),
    [
        ("namespaces", {"labels": {"kubernetes.io/metadata.name": "x"}}, "other"),
        ("daemonsets", {"annotations": {"deprecated.daemonset.template.generation": "3"}}, "m"),
    ],
)
def test_status_without_metadata_of_the_server_keeps_it(plural: str, kept: Object, owner: str) -> None:
    row = TABLE.of(plural)
    target, ((field, values),) = Target(row, "update", "ns", "x", "status"), kept.items()
    fields: Object = {"f:metadata": {f"f:{field}": {f"f:{key}": {} for key in values}}}
    entry = Author("other", UPDATE, row.api_version).entry(fields, "2026-01-01T00:00:00Z")
    bare = {"name": "x", "uid": "u", "resourceVersion": "1", "managedFields": [entry]}
    old: Object = {"kind": row.kind, "apiVersion": row.api_version, "metadata": {**bare, **kept}, "spec": {}}
    new = replace_mutation(target, {**old, "metadata": bare}, updaters(target, WriteOptions(manager="m")))(old)
    assert new is not None
    assert new["metadata"][field] == values
    assert [entry["manager"] for entry in new["metadata"]["managedFields"] if "f:metadata" in entry["fieldsV1"]] == [
        owner
    ]


@pytest.mark.parametrize(
    ("plural", "kept"),
    [
        ("pods", {"ownerReferences"}),
        ("deployments", {"labels"}),
        ("nodes", set()),
        ("volumeattachments", set(METADATA)),
        ("resourceclaims", set(METADATA)),
    ],
)
def test_status_is_written_with_the_metadata_that_its_kind_allows(plural: str, kept: set[str]) -> None:
    row = TABLE.of(plural)
    target, options = Target(row, "patch", "ns", "x", "status"), WriteOptions(manager="m")
    named = {"kind": row.kind, "apiVersion": row.api_version, "metadata": {"name": "x"}}
    entry = Author("other", APPLY, row.api_version).entry({"f:spec": {}}, "2026-01-01T00:00:00Z")
    old: Object = {
        **named,
        "metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "managedFields": [entry]},
        "spec": {},
    }
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    given = {"annotations": {"a": "b"}, "labels": {"a": "b"}, "finalizers": ["a.b/c"], "ownerReferences": [owner]}
    wanted = {**named, "metadata": {"name": "x", **given}}
    sent, owners = {**old, "metadata": {**old["metadata"], **given}}, updaters(target, options)
    for mutation in (apply_mutation(target, wanted, options), replace_mutation(target, sent, owners)):
        new = mutation(copy.deepcopy(old))
        assert new is not None
        assert given.keys() - new["metadata"].keys() == kept
        mine = [entry["fieldsV1"] for entry in new["metadata"]["managedFields"] if entry["manager"] == "m"]
        assert {field for fields in mine for field in fields.get("f:metadata", {})} == {
            f"f:{f}" for f in given.keys() - kept
        }
