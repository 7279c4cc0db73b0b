"""Recipes for authors of device plugins: where `nodeplane plugin` runs, run yours.

The rules are judged by the scripts of `nodeplane conform`; the other tests see what becomes of pods.
"""

from pathlib import Path

import pytest

from pytest_nodeplane import Conform, Node

GPU = "example.com/gpu"
RULES = ["kubelet-restarts", "ids-stay", "health-change", "health-after-restart", "two-instances", "allocate-asked"]


@pytest.mark.conform("plugin", only=RULES, timeout=20)
def test_plugin_obeys_the_rule(conform: Conform, tmp_path_factory: pytest.TempPathFactory) -> None:
    health = tmp_path_factory.getbasetemp() / "health.txt"  # what the simulated plugin looks at, in all items
    health.touch()
    conform(
        *("nodeplane", "plugin", "--resource", GPU, "--devices", "3", "--health-file", str(health)),
        break_with=f"echo gpu-0 Unhealthy > {health}",
        mend_with=f": > {health}",
    )


def pod(name: str) -> dict:
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"], "resources": {"limits": {GPU: 1}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_pod_keeps_its_device_when_the_kubelet_restarts(node: Node) -> None:
    node.plugin(GPU, devices=2)
    node.apply(pod("before"))
    node.wait("before").running()
    held = node.held("before")

    node.restart_kubelet()

    node.wait_devices(GPU, 2)
    assert node.held("before") == held, "the pod lost its device when the kubelet restarted"
    node.apply(pod("after"))
    node.wait("after").running()
    assert not set(node.held("after")) & set(held), "a second pod was given the device of the first"


def test_pod_shows_its_broken_device_and_no_other_gets_it(node: Node, tmp_path: Path) -> None:
    health = tmp_path / "health.txt"
    node.plugin(GPU, devices=3, health_file=str(health))
    node.apply(pod("a"))
    node.wait("a").running()
    [broken] = node.held("a")

    health.write_text(f"{broken} Unhealthy\n")

    node.wait("a").until(lambda pod: "Unhealthy" in str(pod["status"]["containerStatuses"]), "shows the broken device")
    node.wait_devices(GPU, 2)
    node.apply(pod("b"))
    node.wait("b").running()
    assert broken not in node.held("b"), "a pod was given the broken device"


def deployment(version: str) -> dict:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": pod("")["spec"]}
    template["spec"]["containers"][0]["env"] = [{"name": "VERSION", "value": version}]
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}


def is_ending(pod: dict) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def test_no_device_is_given_out_twice_while_workload_and_plugin_roll(node: Node) -> None:
    old = node.plugin(GPU, devices=3)
    holders: dict[str, str] = {}

    def follow(event) -> bool:  # every event, in the order of the node's ledger
        pod_name = f"{event.pod.namespace}/{event.pod.name}"
        for device in [device for device, name in holders.items() if name == pod_name]:
            del holders[device]
        for device in [device.id for container in event.pod.containers for device in container.devices]:
            assert device not in holders, f"{device} is held by {holders[device]} and {pod_name}"
            holders[device] = pod_name
        return True

    def rolled_out(version: int) -> bool:
        status = node.get("apps/v1", "Deployment", "w").get("status", {})
        counts = [
            status.get(name, 0) for name in ("observedGeneration", "updatedReplicas", "readyReplicas", "replicas")
        ]
        return counts == [version, 2, 2, 2]

    with node.pod_resources.watch() as watch:
        node.apply(deployment("1"))
        node.until("version 1 runs", lambda: rolled_out(1))
        node.apply(deployment("2"))
        node.plugin(GPU, devices=3)  # the next version of the plugin, while pods come and go
        old.stop()
        node.until("version 2 runs", lambda: rolled_out(2))
        running = [pod for pod in node.objects("v1", "Pod") if pod["status"]["phase"] == "Running"]
        new_pods = {f"{node.namespace}/{pod['metadata']['name']}" for pod in running if not is_ending(pod)}
        while set(holders.values()) != new_pods:
            watch.next(follow)
    assert len(holders) == 2
    node.wait_devices(GPU, 3)
