"""A recipe for authors of monitoring agents: `nodeplane watch` is the agent, `node.run("my-agent")` runs yours."""

import json
import time

from test_recipe_plugin import GPU, pod

from pytest_nodeplane import Node

QUIET_S = 1.0
"""Longer than the interval at which your agent would poll."""


def test_agent_watches_instead_of_polling_and_resumes(node: Node) -> None:
    node.plugin(GPU, devices=3)
    lists, watches = (node.pod_resources.requests(method) for method in ("list", "list_and_watch"))
    agent = node.run("nodeplane", "watch", "pods", "-o", "json")

    def seen(name: str) -> list[str]:
        events = [json.loads(line) for line in agent.output.splitlines() if line.startswith("{")]
        return [event["action"] for event in events if event["name"] == name]

    node.apply(pod("first"))
    node.until("the agent sees the first pod", lambda: seen("first") == ["ADDED"])
    opened = node.pod_resources.requests("list_and_watch") - watches
    assert opened == 1, f"the agent opened {opened} watches instead of one"
    listed = node.pod_resources.requests("list") - lists
    assert listed <= 1, f"the agent polls: {listed} calls of List"  # one to start with is no polling

    node.kill("frontdoor")  # the stream breaks
    node.apply(pod("second"))
    node.until("the agent sees the second pod", lambda: seen("second") == ["ADDED"])
    assert seen("first") == ["ADDED"], "the agent did not resume its watch: it was told of the first pod again"
    time.sleep(QUIET_S)
    listed = node.pod_resources.requests("list")  # counted since the front door's restart
    assert listed == 0, f"the agent lists instead of resuming its watch: {listed} calls of List"
