"""Versions that HorizontalPodAutoscalers name: checked where they are new."""

import pytest

from protocols.kinds.workloads.autoscaling import AUTOSCALERS
from protocols.kube.meta import Object

TARGET, DESCRIBED = "spec.scaleTargetRef.apiVersion", "spec.metrics[0].object.describedObject.apiVersion"


def autoscaler(target: Object, described: str = "v1") -> Object:
    measured = {
        "describedObject": {"apiVersion": described, "kind": "Service", "name": "s"},
        "metric": {"name": "m"},
        "target": {"type": "Value", "value": "1"},
    }
    spec = {
        "maxReplicas": 2,
        "scaleTargetRef": {"name": "a", **target},
        "metrics": [{"type": "Object", "object": measured}],
    }
    obj: Object = {"metadata": {"name": "a"}, "spec": spec}
    AUTOSCALERS.strategy.default(obj)
    return obj


DEPLOYMENT = {"kind": "Deployment", "apiVersion": "apps/v1"}


@pytest.mark.parametrize(
    ("target", "described", "wrong"),
    [
        (DEPLOYMENT, "v1", []),
        ({"kind": "Deployment"}, "v1", [TARGET]),
        ({"kind": "Deployment", "apiVersion": "v1"}, "", [TARGET]),
        ({"kind": "ReplicationController"}, "v1", []),
        ({"kind": "Deployment", "apiVersion": "a/b/c"}, "a/b/c", [TARGET, DESCRIBED]),
    ],
)
def test_autoscaler_names_versions_that_exist(target: Object, described: str, wrong: list[str]) -> None:
    causes = AUTOSCALERS.strategy.validate_create(autoscaler(target, described))
    assert [cause.field for cause in causes] == wrong


def test_autoscaler_stored_with_wrong_versions_may_still_be_updated() -> None:
    old, new = (autoscaler({"kind": "Deployment"}, "a/b/c") for _ in range(2))
    new["spec"]["maxReplicas"] = 3
    assert AUTOSCALERS.strategy.validate_update(new, old) == []
    new["spec"]["scaleTargetRef"]["kind"] = "ReplicaSet"
    assert [cause.field for cause in AUTOSCALERS.strategy.validate_update(new, old)] == [TARGET]
