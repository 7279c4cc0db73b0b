"""The agent on a node: `pytest` starts the node, pytest-nodeplane gives it as the fixture `node`."""

import json
import sys
from pathlib import Path
from typing import Any

from pytest_nodeplane import Node, Process

PROGRAM = Path(__file__).parents[1] / "agent.py"
RESOURCE = "example.com/gpu"


def pod(name: str) -> dict[str, Any]:
    resources = {"limits": {RESOURCE: 1}}
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"], "resources": resources}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def reported(agent: Process, name: str) -> list[tuple[str, list[str]]]:
    """Return the actions with devices that the agent printed of a pod."""
    events = [json.loads(line) for line in agent.output.splitlines() if line.startswith("{")]
    return [(event["action"], event["devices"]) for event in events if event["name"] == name]


def test_agent_follows_pods_and_resumes(node: Node) -> None:
    node.plugin(RESOURCE, devices=2)
    lists = node.pod_resources.requests("list")
    agent = node.run(sys.executable, str(PROGRAM))
    node.apply(pod("a"))
    node.wait("a").running()
    added = ("ADDED", [f"{RESOURCE}={node.held('a')[0]}"])
    node.until("the agent sees the pod", lambda: reported(agent, "a") == [added])
    assert node.pod_resources.requests("list") == lists  # it watches

    node.kill("frontdoor")  # the stream breaks
    node.apply(pod("b"))
    node.until("the agent sees the second pod", lambda: len(reported(agent, "b")) == 1)
    assert reported(agent, "a") == [added]  # it resumed: nothing is reported twice
    node.delete("v1", "Pod", "a", grace_s=0)
    node.until("the agent sees that the pod is gone", lambda: reported(agent, "a") == [added, ("DELETED", [])])
    assert agent.runs
