"""Status of PodDisruptionBudgets, and evictions by it. Rules and texts are those of Kubernetes 1.36."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.errors import ApiError, Forbidden, TooManyRequests
from actors.apiserver.writes.budgets import MOST_DISRUPTED, decremented, ignores_budgets, spares_unready
from actors.controllers.policies import disruption
from actors.controllers.policies.budgets import DisruptionController, PodHandler
from actors.controllers.policies.disruption import TIMEOUT_S, Expectation, ScaleUnknown
from actors.controllers.policies.scales import Scales
from protocols.kinds.table import (
    BY_KIND,
    DAEMONSETS,
    DEPLOYMENTS,
    PODDISRUPTIONBUDGETS,
    REPLICASETS,
    STATEFULSETS,
)
from protocols.kube import errors
from protocols.kube.meta import Object
from protocols.kube.times import format_time
from tests.support.memory_api import Events, MemoryApi

NOW = 1_800_000_000.0


def budget(status: Object | None = None, generation: int = 1, **spec: Any) -> Object:
    metadata = {"name": "b", "namespace": "ns", "generation": generation}
    return {"metadata": metadata, "spec": {"selector": {}, **spec}, "status": status or {}}


def pod(name: str, ready: bool = True, *, deleting: bool = False, owner: Object | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": "ns", "labels": {"app": "a"}}
    if deleting:
        metadata["deletionTimestamp"] = format_time(NOW)
    if owner is not None:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running", "conditions": conditions}}


@pytest.mark.parametrize(
    ("spec", "matching", "scale", "expected"),
    [
        ({"minAvailable": 3}, 5, 0, Expectation(5, 3)),
        ({"minAvailable": "30%"}, 5, 10, Expectation(10, 3)),
        ({"minAvailable": "1%"}, 5, 10, Expectation(10, 1)),
        ({"maxUnavailable": 3}, 5, 10, Expectation(10, 7)),
        ({"maxUnavailable": "35%"}, 5, 10, Expectation(10, 6)),
        ({"maxUnavailable": 30}, 5, 10, Expectation(10, 0)),
        ({}, 5, 10, Expectation(0, 0)),
    ],
)
def test_expectation_of_a_budget(spec: Object, matching: int, scale: int, expected: Expectation) -> None:
    assert disruption.expectation(budget(**spec), matching, scale) == expected


@pytest.mark.parametrize("value", ["5", "x%", "%", "9" * 5000 + "%", "-5%"])
def test_expectation_of_a_budget_stored_without_validation_is_unknown(value: str) -> None:
    with pytest.raises(ScaleUnknown):
        disruption.expectation(budget(minAvailable=value), 5, 10)


def test_status_counts_ready_pods_that_nobody_deletes() -> None:
    evicted = {"c": format_time(NOW - 1), "gone": format_time(NOW), "late": format_time(NOW - TIMEOUT_S - 5)}
    held = budget({"disruptedPods": evicted}, generation=7, minAvailable=1)
    pods = [pod("a"), pod("b", ready=False), pod("c"), pod("d", deleting=True), pod("late")]
    status = disruption.status_of(held, pods, Expectation(5, 1), NOW)
    assert (status["currentHealthy"], status["disruptionsAllowed"], status["observedGeneration"]) == (2, 1, 7)
    assert status["disruptedPods"] == {"c": evicted["c"]}
    assert disruption.next_check(status["disruptedPods"]) == NOW - 1 + TIMEOUT_S
    condition = status["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed", "True", "SufficientPods"
    )  # fmt: skip


def test_status_of_a_budget_without_expected_pods_allows_nothing() -> None:
    status = disruption.status_of(budget(minAvailable=0), [pod("a")], Expectation(0, 0), NOW)
    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["reason"] == "InsufficientPods"


def test_failed_status_keeps_the_counts_and_allows_nothing() -> None:
    held = budget({"disruptionsAllowed": 3, "currentHealthy": 3})
    status = disruption.failed_status(held, [], "no scale", NOW)
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 3)
    assert (status["conditions"][0]["reason"], status["conditions"][0]["message"]) == ("SyncFailed", "no scale")


def test_failed_status_forgets_evictions_that_timed_out() -> None:
    """They were checked again five times a second."""
    evicted = {"a": format_time(NOW - TIMEOUT_S - 5), "b": format_time(NOW)}
    status = disruption.failed_status(budget({"disruptedPods": evicted}), [pod("a"), pod("b")], "no scale", NOW)
    assert status["disruptedPods"] == {"b": evicted["b"]}


def test_condition_keeps_the_time_of_its_last_change() -> None:
    first = disruption.status_of(budget(), [pod("a")], Expectation(1, 0), NOW)
    second = disruption.status_of(budget(first), [pod("a"), pod("b")], Expectation(2, 0), NOW + 60)
    assert second["conditions"][0]["lastTransitionTime"] == first["conditions"][0]["lastTransitionTime"]


def test_budget_without_a_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert disruption.selects(budget(), pod("a"))
    assert not disruption.selects(budget(selector=None), pod("a"))
    assert not disruption.selects(budget(selector={"matchLabels": {"app": "b"}}), pod("a"))


def test_pods_of_a_namespace_are_those_that_the_informer_showed() -> None:
    changes: list[tuple[Object, ...]] = []
    handler = PodHandler(lambda *versions: changes.append(versions))
    first, second = pod("a"), pod("a", ready=False)
    other = {"metadata": {"name": "a", "namespace": "other"}}
    handler.on_add(first)
    handler.on_add(other)
    handler.on_update(first, second)
    assert list(handler.within("ns")) == [second]
    handler.on_delete(second)
    assert [list(handler.within(name)) for name in ("ns", "other", "none")] == [[], [other], []]
    assert changes == [(first,), (other,), (first, second), (second,)]


# scales


def owner(kind: str, name: str, uid: str, version: str = "apps/v1") -> Object:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid}


async def test_scale_of_pods_is_that_of_the_deployment_behind_their_replica_set() -> None:
    api = MemoryApi()
    api.put(DEPLOYMENTS, {"metadata": {"name": "d", "namespace": "ns", "uid": "d1"}, "spec": {"replicas": 5}})
    references = [{**owner("Deployment", "d", "d1"), "controller": True}]
    for name in ("old", "new"):
        metadata = {"name": name, "namespace": "ns", "uid": name, "ownerReferences": references}
        api.put(REPLICASETS, {"metadata": metadata, "spec": {"replicas": 3}})
    api.put(STATEFULSETS, {"metadata": {"name": "s", "namespace": "ns", "uid": "s1"}, "spec": {"replicas": 2}})
    pods = [
        pod("a", owner=owner("ReplicaSet", "old", "old")),
        pod("b", owner=owner("ReplicaSet", "new", "new")),
        pod("c", owner=owner("StatefulSet", "s", "s1")),
        pod("d"),
    ]
    assert await Scales(api, lambda *kind: BY_KIND.get(kind)).total(pods) == (7, ["d"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        (owner("DaemonSet", "ds", "ds1"), "daemonsets.apps does not implement the scale subresource"),
        (owner("ReplicaSet", "no", "x"), 'found no controllers for pod "a"'),
        (owner("Widget", "no", "x", "example.com/v1"), 'found no controllers for pod "a"'),
    ],
)
async def test_scale_that_cannot_be_known_is_an_error(reference: Object, fault: str) -> None:
    api = MemoryApi()
    api.put(DAEMONSETS, {"metadata": {"name": "ds", "namespace": "ns", "uid": "ds1"}})
    with pytest.raises(ScaleUnknown) as raised:
        await Scales(api, lambda *kind: BY_KIND.get(kind)).total([pod("a", owner=reference)])  # type: ignore[arg-type]
    assert str(raised.value) == fault


async def test_budget_whose_scale_cannot_be_read_allows_no_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on to allow what it had allowed before, whatever became of the pods."""
    api = MemoryApi()
    api.put(STATEFULSETS, {"metadata": {"name": "s", "namespace": "ns", "uid": "s1"}, "spec": {"replicas": 2}})
    owned = pod("a", owner=owner("StatefulSet", "s", "s1"))
    api.put(PODDISRUPTIONBUDGETS, budget(maxUnavailable=2))
    informer: Any = SimpleNamespace(items={}, synced=True)
    log, find = logging.getLogger("t"), lambda *kind: BY_KIND.get(kind)
    controller = DisruptionController(api, Events(), log, find, lambda: informer)  # type: ignore[arg-type]
    controller.items = api.objects["poddisruptionbudgets"]
    controller.pod_handler.on_add(owned)

    def status() -> Object:
        controller._passed.clear()
        return dict(api.objects["poddisruptionbudgets"]["ns/b"]["status"])

    await controller._sync(("budget", "ns/b"))
    assert status()["disruptionsAllowed"] == 1
    with monkeypatch.context() as patched:
        patched.setattr(api, "get", forbidden)
        with pytest.raises(errors.ApiError):
            await controller._sync(("budget", "ns/b"))
    assert (status()["disruptionsAllowed"], status()["conditions"][0]["reason"]) == (0, "SyncFailed")
    await controller._sync(("budget", "ns/b"))
    assert status()["disruptionsAllowed"] == 1


async def forbidden(*what: Any, **how: Any) -> Object:
    raise errors.ApiError(403, {"message": "not allowed", "reason": "Forbidden"})


# evictions


def fresh(**status: Any) -> Object:
    return budget({"observedGeneration": 1, **status})


def cause_of(error: ApiError) -> str:
    return str(error.status["details"]["causes"][0]["message"])


def test_eviction_takes_one_disruption_and_names_the_pod() -> None:
    after = decremented(fresh(disruptionsAllowed=2), "p")["status"]
    assert (after["disruptionsAllowed"], list(after["disruptedPods"])) == (1, ["p"])
    last = decremented(fresh(disruptionsAllowed=1), "p")["status"]["conditions"][0]
    assert (last["status"], last["reason"]) == ("False", "InsufficientPods")


NOT_ALLOWED = {"type": "DisruptionAllowed", "status": "False"}


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (
            {"currentHealthy": 2, "desiredHealthy": 3},
            "The disruption budget b needs 3 healthy pods and has 2 currently",
        ),
        (
            {"conditions": [{**NOT_ALLOWED, "reason": "SyncFailed", "message": "no scale"}]},
            "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
        ),
        (
            {"currentHealthy": 4, "desiredHealthy": 3, "conditions": [{**NOT_ALLOWED, "reason": "R", "message": "m"}]},
            "The disruption budget b does not allow evicting pods currently (R): m",
        ),
        (
            {"currentHealthy": 4, "desiredHealthy": 3},
            "The disruption budget b does not allow evicting pods currently",
        ),
    ],
)
def test_eviction_above_the_budget_is_429_with_its_cause(status: Object, cause: str) -> None:
    with pytest.raises(TooManyRequests) as raised:
        decremented(fresh(**status), "p")
    assert cause_of(raised.value) == cause
    assert raised.value.status["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "retryAfterSeconds" not in raised.value.status["details"]


def test_eviction_before_the_controller_saw_the_budget_is_429_with_a_delay() -> None:
    with pytest.raises(TooManyRequests) as raised:
        decremented(budget({"observedGeneration": 1, "disruptionsAllowed": 5}, generation=2), "p")
    assert cause_of(raised.value) == "The disruption budget b is still being processed by the server."
    assert raised.value.status["details"]["retryAfterSeconds"] == 10


@pytest.mark.parametrize(
    "status", [{"disruptionsAllowed": -1}, {"disruptedPods": dict.fromkeys(map(str, range(MOST_DISRUPTED + 1)), "")}]
)
def test_eviction_by_a_broken_status_is_forbidden(status: Object) -> None:
    with pytest.raises(Forbidden, match=r'poddisruptionbudget.policy "b" is forbidden'):
        decremented(fresh(**status), "p")


def test_unready_pod_goes_if_the_budget_is_healthy_or_always_allows_it() -> None:
    healthy = fresh(currentHealthy=3, desiredHealthy=3)
    assert spares_unready(healthy, pod("a", ready=False))
    assert not spares_unready(healthy, pod("a"))
    assert not spares_unready(fresh(currentHealthy=2, desiredHealthy=3), pod("a", ready=False))
    assert not spares_unready(fresh(currentHealthy=0, desiredHealthy=0), pod("a", ready=False))
    always = budget({"currentHealthy": 0, "desiredHealthy": 3}, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert spares_unready(always, pod("a", ready=False))


def test_pod_that_has_ended_or_never_ran_ignores_budgets() -> None:
    running = pod("a")
    assert not ignores_budgets(running)
    assert ignores_budgets(pod("a", deleting=True))
    for phase in ("Pending", "Succeeded", "Failed"):
        assert ignores_budgets({**running, "status": {"phase": phase}})


moves = st.lists(st.tuples(st.sampled_from(["evict", "gone", "sync", "wait", "new"]), st.integers(0, 7)), max_size=40)


@given(moves, st.integers(0, 4))
def test_evictions_never_leave_fewer_healthy_pods_than_the_budget_wants(
    history: list[tuple[str, int]], least: int
) -> None:
    """Evictions, deletions, late and early passes of the controller in any order."""
    pods = {f"p{i}": pod(f"p{i}") for i in range(5)}
    held, now = budget(minAvailable=least), NOW
    granted: dict[str, float] = {}
    for move, number in history:
        name = f"p{number}"
        match move:
            case "evict" if name in pods and name not in granted:
                try:
                    held = decremented(held, name)
                except ApiError:
                    continue
                granted[name] = now
                held["status"]["disruptedPods"][name] = format_time(now)
                assert len(pods) - len(granted) >= least
            case "gone" if granted:
                gone = sorted(granted)[number % len(granted)]
                del granted[gone], pods[gone]
            case "new" if name not in pods:
                pods[name] = pod(name)
            case "wait":
                now += number
            case "sync":
                expected = disruption.expectation(held, len(pods), 0)
                held["status"] = disruption.status_of(held, list(pods.values()), expected, now)
        granted = {name: at for name, at in granted.items() if at + TIMEOUT_S > now + 1}
