"""Choice of victims and of the node, against trying everything."""

import itertools
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.model.nominations import Candidate, Nomination, Nominations, Victim
from actors.scheduler.preemption.selection import (
    best,
    budgets_of,
    candidate_count,
    cost,
    importance,
    select_victims,
    violating,
)
from protocols.dra.types import DeviceId
from protocols.kinds import views

PODS = ("a", "b", "c", "d", "e")
CLAIMS = tuple(map(frozenset, (*PODS, "ab", "bc", "cde")))


def victim(name: str, priority: int = 0, started: float = 0.0, **labels: str) -> Victim:
    return Victim(name, "ns", name, priority, started, labels, terminating=False)


def budget(allowed: int, app: str, *disrupted: str, namespace: str = "ns") -> views.PodDisruptionBudget:
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")}
    spec = {"selector": {"matchLabels": {"app": app}}}
    return cast(
        "views.PodDisruptionBudget", {"metadata": {"namespace": namespace, "name": "b"}, "spec": spec, "status": status}
    )


class SmallNode:
    """Pods with cpu and claims, some of them shared; the preemptor needs cpu and devices."""

    def __init__(self, cpu: dict[str, int], claims: list[frozenset[str]], needs: tuple[int, int]) -> None:
        self.cpu, self.claims, self.needs = cpu, claims, needs

    def fits(self, removed: frozenset[str]) -> bool:
        """A claim is free when all its pods are gone."""
        cpu = sum(self.cpu[name] for name in removed)
        devices = sum(users <= removed for users in self.claims)
        return cpu >= self.needs[0] and devices >= self.needs[1]


def chosen(node: SmallNode, potential: list[Victim], budgets: list[views.PodDisruptionBudget]) -> Candidate | None:
    selection = select_victims("n", potential, budgets_of(budgets))
    removed = next(selection)
    try:
        while True:
            removed = selection.send(node.fits(frozenset(removed)))
    except StopIteration as end:
        found: Candidate | None = end.value
        return found


@given(
    st.fixed_dictionaries({name: st.integers(0, 3) for name in PODS}),
    st.lists(st.sampled_from(CLAIMS), max_size=4),
    st.tuples(st.integers(0, 6), st.integers(0, 3)),
    st.fixed_dictionaries({name: st.integers(-1, 2) for name in PODS}),
    st.fixed_dictionaries({name: st.sampled_from(["x", "y"]) for name in PODS}),
    st.integers(0, 3),
)
def test_victims_equal_those_found_by_trying_everything(
    cpu: dict[str, int], claims: list[frozenset[str]], needs: tuple[int, int], priorities: dict[str, int],
    apps: dict[str, str], allowed: int,
) -> None:  # fmt: skip
    node = SmallNode(cpu, claims, needs)
    potential = [victim(name, priorities[name], float(at), app=apps[name]) for at, name in enumerate(PODS)]
    budgets = [budget(allowed, "x")]
    found = chosen(node, potential, budgets)
    past = violating(sorted(potential, key=importance), budgets_of(budgets))
    order = [each.uid for each in sorted(potential, key=lambda each: (each.uid not in past, importance(each)))]
    subsets = (frozenset(each) for n in range(len(PODS) + 1) for each in itertools.combinations(PODS, n))
    working = [removed for removed in subsets if node.fits(removed)]
    if found is None:
        assert not working
        return
    kept_first = max(working, key=lambda removed: [name not in removed for name in order])
    assert {each.uid for each in found.victims} == kept_first
    assert found.violations == len(kept_first & past)
    assert list(found.victims) == sorted(found.victims, key=importance)
    assert all(not node.fits(kept_first - {name}) for name in kept_first), "nobody goes in vain"


def test_few_questions_tell_few_victims_of_many() -> None:
    """A question may be a search for devices among thousands."""
    questions = []

    class LargeNode(SmallNode):
        def fits(self, removed: frozenset[str]) -> bool:
            questions.append(len(removed))
            return {"p700", "p3000"} <= removed

    found = chosen(LargeNode({}, [], (0, 0)), [victim(f"p{at}") for at in range(4096)], [])
    assert found is not None
    assert {each.uid for each in found.victims} == {"p700", "p3000"}
    assert len(questions) < 100


def test_budget_is_used_up_by_the_most_important_pods_first() -> None:
    pods = [victim("a", 2, app="x"), victim("b", 1, app="x"), victim("c", 0, app="y")]
    assert violating(pods, budgets_of([budget(1, "x")])) == {"b"}
    assert violating(pods, budgets_of([budget(0, "x", "a")])) == {"b"}, "who was evicted is counted already"
    assert violating(pods, budgets_of([budget(0, "x", namespace="other")])) == set()
    odd: list[Any] = [
        {"metadata": {"namespace": "ns"}, "spec": {"selector": {}}, "status": {}},
        {"spec": {"selector": 1}},
    ]
    assert violating(pods, budgets_of(odd)) == set()


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Candidate("n", (victim("a", 9),)), Candidate("n", (victim("b", 0),), violations=1)),
        (Candidate("n", (victim("a", 1), victim("b", 1))), Candidate("n", (victim("c", 2),))),
        (Candidate("n", (victim("a", 2), victim("b", 0))), Candidate("n", (victim("c", 2), victim("d", 1)))),
        (Candidate("n", (victim("a", -5),)), Candidate("n", (victim("c", -5), victim("d", -7)))),
        (Candidate("n", (victim("a", 1, 20.0),)), Candidate("n", (victim("b", 1, 10.0),))),
        (
            Candidate("n", (victim("a", 1, 9.0), victim("b", 0, 1.0))),
            Candidate("n", (victim("c", 1, 8.0), victim("d"))),
        ),
        (Candidate("n", ()), Candidate("n", (victim("b", -9),))),
    ],
    ids=["budgets", "highest priority", "sum", "number", "latest start", "start of the highest", "nobody"],
)
def test_candidates_are_ordered_as_upstream(better: Candidate, worse: Candidate) -> None:
    assert cost(better) < cost(worse)
    assert best([worse, better]) is better


def test_best_of_equals_is_the_first() -> None:
    first, second = (Candidate(name, (victim(name),)) for name in "ab")
    assert best([first, second]) is first
    assert best([]) is None


@pytest.mark.parametrize(("nodes", "enough"), [(0, 0), (7, 7), (500, 100), (1000, 100), (5000, 500)])
def test_candidate_count_is_a_tenth_but_at_least_a_hundred(nodes: int, enough: int) -> None:
    assert candidate_count(nodes) == enough


def test_nominations_hold_for_pods_of_lower_or_equal_priority() -> None:
    device = DeviceId("d", "p", "0")
    known = Nominations()
    known.add(Nomination("u", "ns", "u", 5, "n1", {"cpu": 1}, {device: None}))
    assert [each.uid for each in known.ahead_of("x", 5, "n1")] == ["u"]
    assert known.ahead_of("x", 6, "n1") == known.ahead_of("u", 5, "n1") == known.ahead_of("x", 5, "n2") == []
    assert known.devices_ahead_of("x", 4) == {device: None}
    assert known.devices_ahead_of("x", 6) == known.devices_ahead_of("u", 5) == {}
    assert [each.uid for each in known.below(6, "n1")] == ["u"]
    assert known.remove("u") is not None
    assert known.remove("u") is None
    assert list(known.nodes()) == []


def test_of_pods_that_started_in_the_same_second_the_newest_goes() -> None:
    older = msgspec.structs.replace(victim("z"), created="2026-01-01T00:00:01Z")
    newer = msgspec.structs.replace(victim("a"), created="2026-01-01T00:00:02Z")
    node = SmallNode({"z": 1, "a": 1}, [], (1, 0))
    for order in ([older, newer], [newer, older]):
        found = chosen(node, order, [])
        assert found is not None
        assert found.victims == (newer,)
