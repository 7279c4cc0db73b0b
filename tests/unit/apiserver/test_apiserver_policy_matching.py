"""Rules and selectors of policies: which writes they match (facts of upstream 1.36)."""

from typing import Any

import pytest

from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission.policies.matching import read_match
from actors.apiserver.writes.change import CREATE, UPDATE, Change
from protocols.cel.text.mutations import as_maps
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object


def row(plural: str, version: str = "v1", group: str = "") -> Served:
    found = TABLE.find(group, version, plural)
    assert found is not None
    return found


PODS, NODES, NAMESPACES = row("pods"), row("nodes"), row("namespaces")
SLICES = (row("resourceslices", "v1", "resource.k8s.io"), row("resourceslices", "v1beta1", "resource.k8s.io"))


def match(resources: list[str], **changes: Any) -> Object:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": [CREATE], "resources": resources, "scope": "*"}
    fields = ("apiGroups", "apiVersions", "operations", "scope", "resourceNames")
    rule |= {key: changes.pop(key) for key in fields if key in changes}
    return {"resourceRules": [rule], **changes}


@pytest.mark.parametrize(
    ("rule", "kind", "subresource", "covered"),
    [
        (match(["pods"]), PODS, "", True),
        (match(["pods"]), PODS, "status", False),
        (match(["pods/*"]), PODS, "status", True),
        (match(["*"]), PODS, "", True),
        (match(["*"]), PODS, "status", False),
        (match(["*/*"]), PODS, "status", True),
        (match(["*/status"]), PODS, "status", True),
        (match(["pods"], operations=["*"]), PODS, "", True),
        (match(["pods"], operations=[UPDATE]), PODS, "", False),
        (match(["pods"], apiGroups=["apps"]), PODS, "", False),
        (match(["*"], scope="Namespaced"), NODES, "", False),
        (match(["*"], scope="Cluster"), NODES, "", True),
        (match(["*"], scope="Cluster"), PODS, "", False),
    ],
)
def test_rule_covers_kinds_of_writes(rule: Object, kind: Served, subresource: str, covered: bool) -> None:
    assert (read_match(rule).find((kind,), subresource, CREATE) is not None) is covered


def test_equivalent_version_is_covered_unless_the_match_is_exact() -> None:
    rule = match(["resourceslices"], apiVersions=["v1beta1"])
    found = read_match(rule).find(SLICES, "", CREATE)
    assert found is not None
    assert found[0] is SLICES[1]
    assert read_match({**rule, "matchPolicy": "Exact"}).find(SLICES, "", CREATE) is None


def test_equivalent_version_is_excluded_unless_the_match_is_exact() -> None:
    excluded = match(["resourceslices"], apiVersions=["v1beta1"])["resourceRules"]
    rule = {**match(["resourceslices"]), "excludeResourceRules": excluded}
    assert read_match(rule).find(SLICES, "", CREATE) is None
    assert read_match({**rule, "matchPolicy": "Exact"}).find(SLICES, "", CREATE) is not None


def selected(rule: Object, obj: Object, namespace: Object, kind: Served = PODS, old: Object | None = None) -> bool:
    name = str(obj["metadata"].get("name"))
    target = Target(kind, "create", "ns" if kind.namespaced else "", name)
    found = read_match(rule).find((kind,), "", CREATE)
    return found is not None and found[1].selects(Change(target, User("u")), obj, old, namespace)


def labelled(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


def test_selectors_choose_by_labels() -> None:
    strict = {"matchLabels": {"a": "b"}}
    by_space, by_object = match(["*"], namespaceSelector=strict), match(["*"], objectSelector=strict)
    plain, marked = labelled("x"), labelled("x", a="b")
    assert selected(by_space, plain, marked)
    assert not selected(by_space, marked, plain)
    assert selected(by_space, plain, plain, NODES), "no namespace selects what is in none"
    assert selected(by_space, marked, {}, NAMESPACES), "a namespace is selected by its own labels"
    assert selected(by_object, plain, plain, old=marked), "the old object counts, too"
    assert not selected(by_object, plain, marked)


def test_names_and_exclusions_choose_objects() -> None:
    named = match(["pods"], resourceNames=["x"])
    assert selected(named, labelled("x"), {})
    assert not selected(named, labelled("y"), {})
    excluding = {**match(["pods"]), "excludeResourceRules": named["resourceRules"]}
    assert not selected(excluding, labelled("x"), {})
    assert selected(excluding, labelled("y"), {})


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("Object{a: 1}", '{"a": dyn( 1)}'),
        (
            '[JSONPatch{op: "add", value: Object.b{c: [1, 2]}}]',
            '[{"op": dyn( "add"), "value": dyn( {"c": dyn( [1, 2])})}]',
        ),
        ("x.Object{a: 1}", "x.Object{a: 1}"),
        ("{'a': b ? c : d}", "{'a': b ? c : d}"),
        ("Object{", "{"),
    ],
)
def test_object_literals_become_maps(source: str, made: str) -> None:
    assert as_maps(source) == made
