"""Two nodes in a test: each has its plugins, its faults and its kubelet to restart."""

import pytest

from pytest_nodeplane import Node

GPU = "example.com/gpu"


def pod(name: str, node: Node) -> dict[str, object]:
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"], "resources": {"limits": {GPU: 1}}}
    where = {"kubernetes.io/hostname": node.name}
    spec = {"terminationGracePeriodSeconds": 1, "nodeSelector": where, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_each_node_has_its_own_plugin_and_devices(nodes: list[Node]) -> None:
    first, second = nodes
    assert second.name == f"{first.name}-2"
    for node in nodes:
        node.plugin(GPU, devices=2)
        node.apply(pod(node.name, node))
    for node in nodes:
        node.wait(node.name).running()
        assert len(node.held(node.name)) == 1
    assert {listed.name for listed in second.pod_resources.list() if listed.namespace == second.namespace} == {
        second.name
    }

    assert first.environment["KUBECONFIG"] == second.environment["KUBECONFIG"]  # the administrator's
    second.break_device()
    second.wait_devices(GPU, 1)
    first.wait_devices(GPU, 2)
    second.heal()


@pytest.mark.kill_at_every_step(victims=["devices"], limit=1)
def test_plugin_of_the_second_node_survives_the_kill_of_its_devices(nodes: list[Node]) -> None:
    _, second = nodes
    second.plugin(GPU)
    second.wait_devices(GPU, 1)


def test_kubelet_of_the_second_node_restarts_alone(nodes: list[Node]) -> None:
    first, second = nodes
    assert first.devices == second.devices == []
    second.plugin(GPU)
    before = first.plane.actors()["devices"].pid
    second.restart_kubelet()
    second.wait_devices(GPU, 1)
    assert first.plane.actors()["devices"].pid == before
    assert second.calls(GPU)
    assert not first.calls(GPU)
