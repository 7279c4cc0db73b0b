"""Fails on purpose: tests/integration/test_pytest_plugin.py of nodeplane reads the report."""

import pytest
from test_recipe_plugin import GPU, pod

from pytest_nodeplane import Node


def test_that_fails(node: Node) -> None:
    node.plugin(GPU, devices=1)
    node.apply([pod("a"), pod("b")])
    node.wait("a").running()
    node.wait("b").running(timeout=0.5)


@pytest.fixture
def broken(node: Node) -> None:
    node.run("sh", "-c", "echo the plugin says why; exit 1").wait()
    node.wait_devices(GPU, 1, timeout=0.1)


@pytest.mark.usefixtures("broken")
def test_whose_set_up_fails() -> None:
    pass
