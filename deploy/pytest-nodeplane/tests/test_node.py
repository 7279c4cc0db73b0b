"""The fixtures, each as a test would use it."""

import time

import pytest

from pytest_nodeplane import Node, NotReached, Plane

GPU = "example.com/gpu"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: any
      command: [sleep, infinity]
      resources: {limits: {example.com/gpu: 1}}
"""


def pod(name: str) -> str:
    return POD.replace("NAME", name)


def test_pod_gets_a_device_that_breaks_and_heals(node: Node) -> None:
    node.plugin(GPU, devices=2)
    node.apply(pod("a"))
    node.wait("a").running()
    [held] = node.held("a")
    [allocate] = [call for call in node.calls(GPU) if call.method == "Allocate"]
    assert allocate.request["container_requests"] == [{"devices_ids": [held]}]
    assert allocate.reply["container_responses"] == [{"envs": {"EXAMPLE_COM_GPU": "(hidden)"}}]
    [allocate] = [call for call in node.calls(GPU, show_secrets=True) if call.method == "Allocate"]
    assert allocate.reply["container_responses"] == [{"envs": {"EXAMPLE_COM_GPU": held}}]
    assert {"scheduler", "devices", "podworker"} <= {row.actor for row in node.trace("a").rows}

    assert node.break_device() == held
    broken = node.wait("a").until(lambda pod: "Unhealthy" in str(pod["status"]["containerStatuses"]))
    assert broken["status"]["phase"] == "Running"
    node.wait_devices(GPU, 1)
    node.heal()
    node.wait_devices(GPU, 2)


def test_node_is_clean_again_and_quick(node: Node, plane: Plane) -> None:
    assert node.devices == []
    assert node.objects("v1", "Pod") == []
    begun = time.monotonic()
    other = Node(plane)
    other.begin()
    other.end()
    assert time.monotonic() - begun < 5  # 0.1 s where nothing else runs


def test_killed_actor_is_back_and_pods_run_on(node: Node) -> None:
    node.plugin(GPU)
    node.apply(pod("a"))
    node.wait("a").running()
    node.kill("devices")
    assert node.held("a") == [device.device for device in node.wait_devices(GPU, 1)]


def test_failed_wait_says_what_the_pod_lacks(node: Node) -> None:
    node.apply(pod("a"))
    with pytest.raises(NotReached, match=r"pod a runs: not in 1 s.*Pending.*Insufficient example.com/gpu") as raised:
        node.wait("a").running(timeout=1)
    assert "FailedScheduling" in str(raised.value)
    with pytest.raises(NotReached, match="no such pod"):
        node.wait("b").ready(timeout=0.1)


def test_name_that_is_not_there_is_an_error_that_helps(node: Node) -> None:
    with pytest.raises(Exception, match=r"no actor is called 'device'; there are .*devices, "):
        node.kill("device")
    with pytest.raises(Exception, match="no claim c is in test-"):
        node.prepare("gpu.example.com", "c")
    with pytest.raises(Exception, match="no method is called 'watch'; there are list, "):
        node.pod_resources.requests("watch")


@pytest.mark.parametrize("time", ["first", "second"])
def test_driver_starts_again_while_its_slices_are_there(node: Node, time: str) -> None:
    assert node.driver("gpu.example.com", devices=2).runs, time
