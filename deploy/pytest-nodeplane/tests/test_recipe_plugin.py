"""Recipes for authors of device plugins: `node.plugin` runs a simulated one, `node.run("my-plugin")` yours."""

from pathlib import Path

from pytest_nodeplane import Node

GPU = "example.com/gpu"


def pod(name: str) -> dict:
    container = {"name": "main", "image": "any", "command": ["sleep", "infinity"], "resources": {"limits": {GPU: 1}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def ids(node: Node) -> list[str]:
    return [row.device for row in node.devices]


def test_plugin_registers_again_after_kubelet_restarts(node: Node) -> None:
    plugin = node.plugin(GPU, devices=2)
    node.apply(pod("before"))
    node.wait("before").running()
    held, known = node.held("before"), ids(node)

    node.restart_kubelet()

    node.wait_devices(GPU, 2)
    assert plugin.runs, "the plugin ended when the kubelet restarted"
    methods = [call.method for call in node.calls(GPU)]  # of the new kubelet: the record begins with it
    assert "Register" in methods, "the plugin did not call Register after the kubelet restarted"
    assert ids(node) == known, "the plugin has other names for the same hardware since the kubelet restarted"
    assert node.held("before") == held, "the pod lost its device when the kubelet restarted"
    node.apply(pod("after"))
    node.wait("after").running()
    assert not set(node.held("after")) & set(held), "a second pod was given the device of the first"


def test_plugin_survives_a_broken_device(node: Node, tmp_path: Path) -> None:
    health = tmp_path / "health.txt"  # what the simulated plugin looks at; break a device as yours notices it
    plugin = node.plugin(GPU, devices=3, health_file=str(health))
    node.apply(pod("a"))
    node.wait("a").running()
    [broken] = node.held("a")

    health.write_text(f"{broken} Unhealthy\n")

    node.wait("a").until(lambda pod: "Unhealthy" in str(pod["status"]["containerStatuses"]), "shows the broken device")
    node.wait_devices(GPU, 2)
    node.apply(pod("b"))
    node.wait("b").running()
    assert broken not in node.held("b"), "a pod was given the broken device"
    assert plugin.runs, "the plugin ended when a device broke"
    health.write_text("")
    node.wait_devices(GPU, 3)


def deployment(version: str) -> dict:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": pod("")["spec"]}
    template["spec"]["containers"][0]["env"] = [{"name": "VERSION", "value": version}]
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}


def is_ending(pod: dict) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def given(node: Node) -> list[tuple[list[str], list[str]]]:
    """Return the devices that each Allocate asked for, and those that the container got: here by a variable."""
    calls = [call for call in node.calls(GPU, show_secrets=True) if call.method == "Allocate"]
    asked = [call.request["container_requests"][0]["devices_ids"] for call in calls]
    answered = [call.reply["container_responses"][0]["envs"]["EXAMPLE_COM_GPU"].split(",") for call in calls]
    return list(zip(asked, answered, strict=True))


def test_no_device_is_given_out_twice_while_workload_and_plugin_roll(node: Node) -> None:
    old = node.plugin(GPU, devices=3)
    known = ids(node)
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
        new = node.plugin(GPU, devices=3)  # the next version of the plugin, while pods come and go
        old.stop()
        node.until("version 2 runs", lambda: rolled_out(2))
        running = [pod for pod in node.objects("v1", "Pod") if pod["status"]["phase"] == "Running"]
        new_pods = {f"{node.namespace}/{pod['metadata']['name']}" for pod in running if not is_ending(pod)}
        while set(holders.values()) != new_pods:
            watch.next(follow)
    assert len(holders) == 2
    others = [pair for pair in given(node) if pair[0] != pair[1]]
    assert others == [], "Allocate answers with other devices than the kubelet chose"
    node.wait_devices(GPU, 3)
    assert ids(node) == known, "the new plugin has other names for the same hardware: the node takes it for more"
    assert new.runs, "the new plugin ended"
