"""The promises of the workloads profile, each with commits that keep it and a last one that breaks it."""

from typing import Any

import pytest

from protocols.kube.meta import Object
from tests.simulation.workloads.definitions import DEFINITION, OBJECTS, STORED, Definitions
from tests.simulation.workloads.evictions import Evictions
from tests.simulation.workloads.flow import Flow, Written
from tests.simulation.workloads.jobs import Jobs
from tests.simulation.workloads.owners import Owners
from tests.simulation.workloads.quotas import Quotas
from tests.simulation.workloads.rollouts import Rollouts
from tests.simulation.workloads.spaces import Spaces

AFTER_S = 20.0
"""Between two commits: long enough for all watches."""
Change = tuple[str, str, Object | None]


def written(changes: list[Change], space: str) -> list[Written]:
    held: dict[tuple[str, str], Object] = {}
    found = []
    for number, (resource, name, obj) in enumerate(changes, 1):
        before = held.get((resource, name))
        namespace = "" if resource == "namespaces" else space
        found.append(Written(number, number * AFTER_S, resource, namespace, name, obj, before))
        held[resource, name] = obj or {}
    return found


def meta(uid: str, **fields: Any) -> Object:
    return {"metadata": {"name": uid, "uid": uid, **fields}}


def pod(uid: str, owner: str = "", phase: str = "Running", app: str = "") -> Object:
    ready = {"type": "Ready", "status": "True"}
    owners = [{"uid": owner}] if owner else []
    return {
        **meta(uid, ownerReferences=owners, labels={"app": app}),
        "status": {"phase": phase, "conditions": [ready]},
    }


def job(succeeded: int, *listed: str) -> Object:
    numbers = {"completions": 3, "parallelism": 2, "completionMode": "NonIndexed"}
    return {
        **meta("j"),
        "spec": numbers,
        "status": {"succeeded": succeeded, "uncountedTerminatedPods": {"succeeded": listed}},
    }


def owned(owner: str) -> Object:
    return meta("d", ownerReferences=[{"uid": owner}])


def replica_set(uid: str, replicas: int) -> Object:
    return {**meta(uid, labels={"app": "more"}), "spec": {"replicas": replicas}}


ORPHANING, WAITING = {"labels": {"policy": "Orphan"}}, {"labels": {"policy": "Foreground"}}


@pytest.mark.parametrize(
    ("flow", "space", "promise", "changes"),
    [
        (Jobs(), "jobs", "no pod is counted twice", [
            ("jobs", "j", job(0)), ("pods", "a", pod("a", "j", "Succeeded")), ("jobs", "j", job(0, "a")),
            ("jobs", "j", job(1)), ("jobs", "j", job(1, "a")),
        ]),
        (Jobs(), "jobs", "no count is lost", [
            ("jobs", "j", job(0)), ("pods", "a", pod("a", "j", "Succeeded")), ("jobs", "j", job(1)),
            ("jobs", "j", job(0)),
        ]),
        (Jobs(), "jobs", "a job runs no more pods than it may", [
            ("jobs", "j", job(0)), *(("pods", name, pod(name, "j")) for name in "abc"),
        ]),
        (Rollouts(), "rollouts", "a rollout surges no further than it may", [
            ("replicasets", "a", replica_set("a", 3)), ("replicasets", "b", replica_set("b", 2)),
        ]),
        (Rollouts(), "rollouts", "a rollout leaves enough available", [
            *(("pods", name, pod(name, app="more")) for name in "abc"), ("pods", "a", None),
        ]),
        (Evictions(), "evictions", "a budget is not overdrawn", [
            *(("pods", name, pod(name)) for name in "abc"), ("pods", "a", None), ("pods", "b", None),
        ]),
        (Quotas(), "quotas", "a quota is not exceeded", [("pods", name, pod(name)) for name in "abcde"]),
        (Spaces(), "space-0", "a namespace that is gone is empty", [
            ("namespaces", "space-0", meta("n")), ("secrets", "o1", meta("s")), ("namespaces", "space-0", None),
        ]),
        (Spaces(), "space-0", "a namespace that is gone is empty", [
            ("namespaces", "space-0", meta("n")), ("namespaces", "space-0", None), ("secrets", "o1", meta("s")),
        ]),
        (Definitions(), "things", "nothing is left of a custom resource", [
            (STORED, DEFINITION, meta("d")), (OBJECTS, "o1", meta("o")), (STORED, DEFINITION, None),
        ]),
        (Owners(), "owners", "an owner that lives keeps its dependents", [
            ("configmaps", "o", meta("o")), ("secrets", "d", owned("o")), ("secrets", "d", None),
        ]),
        (Owners(), "owners", "dependents end first", [
            ("configmaps", "o", meta("o", **WAITING)), ("secrets", "d", owned("o")), ("configmaps", "o", None),
        ]),
        (Owners(), "owners", "orphans stay", [
            ("configmaps", "o", meta("o", **ORPHANING)), ("secrets", "d", owned("o")), ("configmaps", "o", None),
        ]),
    ],
)  # fmt: skip
def test_last_commit_breaks_a_promise_that_those_before_keep(
    flow: Flow, space: str, promise: str, changes: list[Change]
) -> None:
    def broken(count: int) -> set[str]:
        return {each.promise for each in flow.check(written(changes[:count], space))} - AT_END

    assert broken(len(changes)) - {promise} == broken(len(changes) - 1) == set()
    assert promise in broken(len(changes))


AT_END = {"converged", "garbage is collected", "a quota is exact"}
"""Promises about the end of a run, which these commits do not reach."""
