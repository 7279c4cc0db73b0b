"""The plugin on a node: `pytest` starts the node, pytest-nodeplane gives it as the fixture `node`."""

import sys
from pathlib import Path
from typing import Any

from pytest_nodeplane import Node, Process

PLUGIN = Path(__file__).parents[1] / "plugin.py"
RESOURCE = "example.com/gpu"


def start(node: Node, broken: Path) -> Process:
    plugin = node.run(sys.executable, str(PLUGIN), environment={"BROKEN_DEVICES": str(broken)})
    node.wait_devices(RESOURCE, 2)
    return plugin


def pod(name: str) -> dict[str, Any]:
    resources = {"limits": {RESOURCE: 1}}
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"], "resources": resources}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_pod_gets_a_device(node: Node, tmp_path: Path) -> None:
    start(node, tmp_path / "broken.txt")
    node.apply(pod("a"))
    node.wait("a").running()
    [held] = node.held("a")
    [allocate] = [call for call in node.calls(RESOURCE, show_secrets=True) if call.method == "Allocate"]
    assert allocate.reply["container_responses"] == [{"envs": {"DEVICES": held}}]


def test_plugin_registers_again_after_the_kubelet_restarts(node: Node, tmp_path: Path) -> None:
    plugin = start(node, tmp_path / "broken.txt")
    node.apply(pod("a"))
    node.wait("a").running()
    held = node.held("a")
    node.restart_kubelet()
    node.wait_devices(RESOURCE, 2)
    assert plugin.runs
    assert node.held("a") == held


def test_broken_device_is_given_to_nobody(node: Node, tmp_path: Path) -> None:
    broken = tmp_path / "broken.txt"
    start(node, broken)
    broken.write_text("device-0\n")
    node.wait_devices(RESOURCE, 1)
    node.apply(pod("a"))
    node.wait("a").running()
    assert node.held("a") == ["device-1"]
    broken.write_text("")
    node.wait_devices(RESOURCE, 2)
