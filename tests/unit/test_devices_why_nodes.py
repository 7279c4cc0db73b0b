"""`nodeplane devices --why POD` and the scheduler reject the same nodes."""

import itertools
from typing import Any

import pytest

from actors.scheduler.model.views import NodeLoad, node_view, pod_view
from actors.scheduler.nodes.node_cache import reasons
from protocols.kube.meta import Object
from supervisor.dra.why import exclusion

KEY = "node.kubernetes.io/unschedulable"
CORDONED = {"unschedulable": True}
WRITTEN = {**CORDONED, "taints": [{"key": KEY, "effect": "NoSchedule"}]}
NODES = (CORDONED, WRITTEN, {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}, {})
TOLERATIONS = (
    [],
    [{"key": KEY, "operator": "Exists"}],
    [{"key": KEY, "operator": "Exists", "effect": "NoExecute"}],
    [{"key": "k", "value": "v"}],
    [{"key": "k", "operator": "Unknown", "value": "v"}],
    [{"operator": "Exists"}],
)


def node(spec: Object) -> Object:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}}
    return {"kind": "Node", "metadata": {"name": "n"}, "spec": spec, "status": status}


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": spec}


def filtered(pod: Object, node: Object) -> list[str]:
    """Return what the scheduler's event says."""
    return reasons(pod_view(pod), NodeLoad(node_view(node)))


@pytest.mark.parametrize(("spec", "tolerations"), list(itertools.product(NODES, TOLERATIONS)))
def test_why_rejects_a_cordoned_or_tainted_node_when_the_scheduler_does(
    spec: Object, tolerations: list[Object]
) -> None:
    wanting = pod(tolerations=tolerations)
    assert bool(exclusion(wanting, node(spec))) == bool(filtered(wanting, node(spec)))


def test_why_words_a_cordoned_node_as_the_event_does() -> None:
    assert filtered(pod(), node(WRITTEN)) == ["node(s) were unschedulable"]
    assert exclusion(pod(), node(WRITTEN)) == "unschedulable"
    tolerating = pod(tolerations=[{"key": KEY, "operator": "Exists"}])
    assert exclusion(tolerating, node(WRITTEN)) == ""
