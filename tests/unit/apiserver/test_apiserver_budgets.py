"""PodDisruptionBudgets: validation, merge rules and columns, by facts of kube-apiserver 1.36."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.apiserver.api.stored import Stored
from actors.apiserver.storage.storage import RevisionConflict
from actors.apiserver.writes.budgets import Budgets
from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.policy.budgets import BUDGETS
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object

SELECTOR = {"matchLabels": {"app": "web"}}
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def budget(status: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "b", "generation": 1}, "spec": spec, **({"status": status} if status else {})}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"minAvailable": 1, "selector": SELECTOR}, []),
        ({"maxUnavailable": "100%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}, []),
        ({}, []),
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            [("spec", "minAvailable and maxUnavailable cannot be both set")],
        ),
        ({"minAvailable": -1}, [("spec.minAvailable", "must be greater than or equal to 0")]),
        ({"maxUnavailable": "101%"}, [("spec.maxUnavailable", "must not be greater than 100%")]),
        ({"maxUnavailable": f"{'9' * 500}%"}, [("spec.maxUnavailable", "must not be greater than 100%")]),
        ({"minAvailable": "5"}, [("spec.minAvailable", PERCENT)]),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            [("spec.selector.matchExpressions[0].operator", "not a valid selector operator")],
        ),
        (
            {"unhealthyPodEvictionPolicy": "Sometimes"},
            [("spec.unhealthyPodEvictionPolicy", 'supported values: "AlwaysAllow", "IfHealthyBudget"')],
        ),
    ],
)
def test_budget_of_a_spec_has_upstreams_causes(spec: Object, wrong: list[tuple[str, str]]) -> None:
    causes = BUDGETS.strategy.validate_create(budget(**spec))
    assert [cause.field for cause in causes] == [field for field, _ in wrong]
    assert all(text in cause.message for cause, (_, text) in zip(causes, wrong, strict=True))


def test_budget_status_with_negative_counts_is_rejected() -> None:
    new = budget({"disruptionsAllowed": -1, "currentHealthy": 0, "expectedPods": -2})
    assert [c.field for c in BUDGETS.strategy.validate_status(new, {})] == [
        "status.disruptionsAllowed",
        "status.expectedPods",
    ]


def test_budget_created_with_a_status_has_an_empty_one() -> None:
    obj = budget({"disruptionsAllowed": 7}, minAvailable=1)
    BUDGETS.strategy.prepare_create(obj)
    assert obj["status"] == {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def test_budget_columns_show_the_limits_and_what_is_allowed() -> None:
    assert [column.name for column in BUDGETS.columns] == [
        "Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"
    ]  # fmt: skip
    shown = [column.cell(budget({"disruptionsAllowed": 2}, minAvailable="50%")) for column in BUDGETS.columns]
    assert shown[:4] == ["b", "50%", "N/A", 2]


def test_strategic_patch_replaces_the_selector_and_merges_conditions() -> None:
    before = {**budget(selector=SELECTOR), "status": {"conditions": [{"type": "A", "status": "True"}]}}
    patch = {"spec": {"selector": {"matchLabels": {"tier": "back"}}}, "status": {"conditions": [{"type": "B"}]}}
    after = apply_strategic_patch(kind_shape("policy", "v1", "PodDisruptionBudget"), before, patch)
    assert after["spec"]["selector"] == {"matchLabels": {"tier": "back"}}
    assert [condition["type"] for condition in after["status"]["conditions"]] == ["B", "A"]


class Guarded:
    """A store of one budget."""

    def __init__(self, obj: Object) -> None:
        self.newest = Stored("ns/b", 1, msgspec.json.encode(obj))

    async def update(self, row: Any, old: Stored, raw: bytes) -> Stored:
        await asyncio.sleep(0)
        if old.rv != self.newest.rv:
            raise RevisionConflict(self.newest)
        self.newest = Stored("ns/b", old.rv + 1, raw)
        return self.newest


async def test_pods_of_a_drained_node_are_evicted_at_once() -> None:
    status = {"disruptionsAllowed": 60, "observedGeneration": 1}
    held = {**budget(status, minAvailable=0), "kind": "PodDisruptionBudget", "apiVersion": "policy/v1"}
    store: Any = Guarded(held)
    replica: Any = SimpleNamespace(resource=BUDGETS)
    budgets, seen = Budgets(store, replica), store.newest
    await asyncio.gather(*(budgets.take(seen, f"p{number}", dry_run=False) for number in range(60)))
    left = store.newest.obj["status"]
    assert (left["disruptionsAllowed"], len(left["disruptedPods"])) == (0, 60)
