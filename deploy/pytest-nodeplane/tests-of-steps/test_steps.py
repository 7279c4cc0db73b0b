"""Marked tests with a right plugin and with bugs; tests/integration/test_pytest_steps.py reads their report."""

import sys

import faulty
import pytest

from pytest_nodeplane import Node

GPU, WAIT_S = "example.com/gpu", 5.0
CONTAINER = {"name": "main", "image": "any", "command": ["sleep", "infinity"], "resources": {"limits": {GPU: 1}}}
LABELS = {"app": "a"}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [CONTAINER]},
        },
    },
}


def run(node: Node, bug: str) -> None:
    node.run(sys.executable, faulty.__file__, bug, "plugin", f"--resource={GPU}", "--devices=2")


def serves(node: Node, wait: float = WAIT_S) -> None:
    """Check that a pod gets a device and both devices are offered; a controller replaces a pod that is rejected."""
    node.wait_devices(GPU, 2, timeout=wait)
    node.apply(DEPLOYMENT)
    node.until("a pod of the deployment runs", lambda: running(node), wait)
    node.wait_devices(GPU, 2, timeout=wait)


def running(node: Node) -> bool:
    return any(pod["status"]["phase"] == "Running" for pod in node.objects("v1", "Pod"))


@pytest.mark.kill_at_every_step(limit=1)
def test_right(node: Node) -> None:
    node.plugin(GPU, devices=2)
    serves(node)


@pytest.mark.kill_at_every_step(victims=["devices"], limit=2)
def test_registers_once(node: Node) -> None:
    run(node, "registers_once")
    serves(node)


@pytest.mark.kill_at_every_step(victims=["program"], limit=1)
class TestOfAClass:
    count = 0

    def test_lock_file(self, node: Node) -> None:
        self.count += 1
        assert self.count == 1, "two runs share an instance"
        run(node, "keeps_a_lock_file")
        serves(node, wait=30.0)  # ends with the program, which takes its time to start on a busy machine
