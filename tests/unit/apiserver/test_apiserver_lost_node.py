"""Defaults that let pods and new nodes take part in the eviction from lost nodes."""

from typing import Any

import pytest

from protocols.kinds.core.nodes import NODES
from protocols.kinds.pods.pods import PODS
from protocols.kube.meta import Object

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
ADDED = {
    key: {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in (NOT_READY, UNREACHABLE)
}


def created(**spec: Any) -> Object:
    pod: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    PODS.strategy.prepare_create(pod)
    return pod


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (None, [NOT_READY, UNREACHABLE]),
        ([], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}], [UNREACHABLE]),
        ([{"key": UNREACHABLE, "operator": "Exists"}], [NOT_READY]),
        ([{"key": NOT_READY, "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
    ],
)
def test_new_pod_tolerates_lost_node_unless_it_says_otherwise(given: Any, added: list[str]) -> None:
    assert created(tolerations=given)["spec"]["tolerations"] == [*(given or []), *(ADDED[key] for key in added)]


def test_replaced_pod_gets_the_same_tolerations_again() -> None:
    old, new = created(), created()
    del new["spec"]["tolerations"]
    PODS.strategy.prepare_update(new, old)
    assert new["spec"] == old["spec"]


@pytest.mark.parametrize("tolerations", ["nope", {"a": 1}, 7])
def test_malformed_tolerations_are_left_for_validation(tolerations: Any) -> None:
    assert created(tolerations=tolerations)["spec"]["tolerations"] == tolerations


def test_new_node_is_tainted_once() -> None:
    taint = {"key": NOT_READY, "effect": "NoSchedule"}
    other = {"key": "mine", "effect": "NoExecute"}
    for given, expected in ((None, [taint]), ([other], [other, taint]), ([taint], [taint])):
        node: Object = {"metadata": {"name": "n"}, "spec": {"taints": given}}
        NODES.strategy.prepare_create(node)
        assert node["spec"]["taints"] == expected
