"""Restart policies of pods and of single containers, and what they make of the pod's phase."""

from collections.abc import Iterable

import pytest

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import PodSpec, read_pod
from protocols.lifecycle.restarts.policy import may_restart
from protocols.lifecycle.status.conditions import compute_phase
from tests.support.podworker_fakes import container, pod, sidecar

RETRY_42 = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
NOT_3 = [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [3]}}]


def spec(*apps: views.Container, inits: Iterable[views.Container] = (), policy: str = "Never") -> PodSpec:
    return read_pod(pod(*apps, inits=inits, policy=policy))


def ended(code: int) -> views.ContainerStatus:
    return {"state": {"terminated": {"exitCode": code}}, "lastState": {}, "ready": code == 0}


@pytest.mark.parametrize(
    ("policy", "own", "code", "again"),
    [
        ("Always", {}, 0, True),
        ("OnFailure", {}, 0, False),
        ("OnFailure", {}, 1, True),
        ("Never", {}, 1, False),
        ("Never", {"restartPolicy": "Always"}, 0, True),
        ("Always", {"restartPolicy": "Never"}, 1, False),
        ("Always", {"restartPolicy": "OnFailure"}, 0, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": RETRY_42}, 42, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": RETRY_42}, 1, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": NOT_3}, 4, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": NOT_3}, 3, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Other"}]}, 3, False),
    ],
)
def test_of_app_containers(policy: str, own: Object, code: int, again: bool) -> None:
    (app,) = spec(container("a", **own)).apps
    assert may_restart(policy, app, code) is again


def test_init_containers_until_they_succeed_and_sidecars_always() -> None:
    inits = [container("i"), container("own", restartPolicy="Never"), sidecar("s")]
    first, own, side = spec(container("a"), inits=inits, policy="Always").inits
    assert [may_restart("Always", first, code) for code in (0, 1)] == [False, True]
    assert not may_restart("Always", own, 1)
    assert may_restart("Never", side, 0)


def test_the_phase_follows_the_containers_own_policies() -> None:
    own = spec(container("a", restartPolicy="Always"), container("b"))
    assert compute_phase(own, {"a": ended(0), "b": ended(1)}) == "Running"
    strict = spec(container("a", restartPolicy="Never"), policy="Always")
    assert [compute_phase(strict, {"a": ended(code)}) for code in (0, 1)] == ["Succeeded", "Failed"]
    ruled = spec(container("a", restartPolicy="Never", restartPolicyRules=RETRY_42), policy="Always")
    assert [compute_phase(ruled, {"a": ended(code)}) for code in (42, 7)] == ["Running", "Failed"]
    first = spec(container("a"), inits=[container("i", restartPolicy="Never")], policy="Always")
    waiting: views.ContainerStatus = {"state": {"waiting": {"reason": "PodInitializing"}}, "lastState": {}}
    assert compute_phase(first, {"i": ended(1), "a": waiting}) == "Failed"
