"""What a RuntimeClass adds to the pods that name it."""

from typing import Any

import pytest

from actors.apiserver.api.errors import Forbidden
from actors.apiserver.api.request.target import Target
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.admission.pods import apply_class
from actors.apiserver.writes.admission.rule import Dependencies, Step
from actors.apiserver.writes.change import Change
from protocols.kube.meta import Object
from tests.unit.apiserver.test_apiserver_rbac import ANN, defaults, node_rules, nothing

POOL: Object = {"key": "pool", "operator": "Exists"}
CLASS: Object = {
    "handler": "vm",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
    "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [POOL]},
}


def new(**spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}], "runtimeClassName": "small", **spec}}


def test_overhead_and_place_become_part_of_the_pod() -> None:
    pod = new(nodeSelector={"zone": "a"}, tolerations=[{"key": "own", "operator": "Exists"}, POOL])
    assert apply_class(pod, CLASS) == ""
    assert pod["spec"]["overhead"] == {"cpu": "250m", "memory": "64Mi"}
    assert pod["spec"]["nodeSelector"] == {"zone": "a", "vm": "yes"}
    assert [toleration["key"] for toleration in pod["spec"]["tolerations"]] == ["own", "pool"]


@pytest.mark.parametrize(
    ("pod", "found", "fault"),
    [
        (new(), None, 'pod rejected: RuntimeClass "small" not found'),
        (new(overhead={"cpu": "0.25", "memory": "64Mi"}), CLASS, ""),
        (
            new(overhead={"cpu": "1"}),
            CLASS,
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            new(overhead={"cpu": "1"}),
            {"handler": "x"},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            new(nodeSelector={"vm": "no"}),
            CLASS,
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
        ),
        (new(overhead="junk", nodeSelector=7, tolerations="x"), {"handler": "x"}, None),
    ],
)
def test_what_does_not_go_together_is_refused_in_upstreams_words(
    pod: Object, found: Object | None, fault: str | None
) -> None:
    said = apply_class(pod, found)
    assert fault is None or said == fault


async def test_a_class_that_is_only_in_the_store_is_found_and_one_that_is_nowhere_forbidden() -> None:
    async def find(name: str) -> Object | None:
        return CLASS if name == "small" else None

    admission = Admission(Dependencies(Authorizer(node_rules(), defaults), nothing, runtime_class=find))

    async def complete(pod: Object) -> None:
        change = Change(target, ANN, new=pod)
        await admission.rules(change).run(Step.COMPLETE, change)

    target = Target(TABLE.of("pods"), "create", "ns")
    await complete(pod := new())
    assert pod["spec"]["nodeSelector"] == {"vm": "yes"}
    with pytest.raises(Forbidden, match='pods "p" is forbidden: pod rejected: RuntimeClass "other" not found'):
        await complete(new(runtimeClassName="other"))
    await complete(plain := {"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert plain["spec"] == {"containers": []}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, []),
        ({"handler": ""}, ["handler"]),
        ({"handler": "Not_A_Label"}, ["handler"]),
        ({"handler": "x" * 64}, ["handler"]),
        ({"overhead": {"podFixed": {"cpu": "1", "memory": "-1"}}}, ["overhead.limits[memory]"]),
        ({"overhead": {"podFixed": {"X": "1"}}}, ["overhead.limits[X]"] * 2),
        ({"scheduling": {"tolerations": [{"operator": "Exists"}] * 2}}, ["scheduling.tolerations[1]"]),
    ],
)
def test_what_is_wrong_with_a_class_is_named(changes: Object, fields: list[str]) -> None:
    strategy = TABLE.of("runtimeclasses").strategy
    assert [cause.field for cause in strategy.validate_create({**CLASS, **changes})] == fields


def test_a_class_keeps_its_handler() -> None:
    strategy = TABLE.of("runtimeclasses").strategy
    assert not strategy.validate_update(CLASS, CLASS)
    assert [cause.field for cause in strategy.validate_update({**CLASS, "handler": "y"}, CLASS)] == ["handler"]
