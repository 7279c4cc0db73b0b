"""The fixtures, each as a test would use it."""

import re
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


def first_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value).splitlines()[0]


def test_first_line_of_a_failed_wait_says_why(node: Node) -> None:
    node.apply(pod("a"))
    with pytest.raises(NotReached) as raised:
        node.wait("a").running(timeout=1)
    shape = r"pod a runs: not in 1 s\. pod/test-\w+/a: pending: no node .*: Insufficient {0}: .*; plugin of {0}: .*"
    assert re.fullmatch(shape.format(GPU), first_line(raised))
    assert "FailedScheduling" in str(raised.value)
    with pytest.raises(NotReached) as raised:
        node.wait("b").ready(timeout=0.1)
    assert str(raised.value) == "pod b is Ready: not in 0.1 s. There is no such pod"
    with pytest.raises(NotReached) as raised:
        node.wait("a").until(lambda pod: pod["status"]["containerStatuses"], "has containers", timeout=0.1)
    assert "has containers: not in 0.1 s. What was read has no field 'containerStatuses'. pod/" in first_line(raised)


def test_wait_ends_when_the_pod_has_failed_for_good(node: Node) -> None:
    first = '[{name: first, image: any, command: [sh, -c, "echo no license; exit 3"]}]'
    failing = pod("a").replace("spec:", f"spec:\n  restartPolicy: Never\n  initContainers: {first}", 1)
    node.apply(failing.replace("resources:", "stdin: false #"))
    begun = time.monotonic()
    with pytest.raises(NotReached) as raised:
        node.wait("a").running()
    assert time.monotonic() - begun < 20  # half a second where nothing else runs
    why = f"pod/{node.namespace}/a: failed: init container first ended with exit code 3"
    assert first_line(raised).startswith(f"pod a runs: cannot happen any more: it has failed for good. {why}")
    assert "\n  log of first: no license\n" in str(raised.value)


def test_first_line_of_a_wait_for_anything_says_why_a_pod_waits(node: Node) -> None:
    node.apply(pod("a"))
    with pytest.raises(NotReached) as raised:
        node.until("the work is done", lambda: False, timeout=1)
    assert first_line(raised).startswith(f"the work is done: not in 1 s. pod/{node.namespace}/a: pending: no node can")


def test_wait_ends_when_the_plugin_has_ended(node: Node) -> None:
    node.run("sh", "-c", "echo no card; exit 4").wait()
    with pytest.raises(NotReached) as raised:
        node.wait_devices(GPU, 1)
    assert first_line(raised).startswith(
        f"1 healthy devices of {GPU}: cannot happen any more: every program of the test has ended. There is no device"
    )
    assert first_line(raised).endswith("sh has ended with 4, its last line: no card")
    with pytest.raises(NotReached, match=r"registered: cannot happen any more: nodeplane plugin has ended with 2, its"):
        node.plugin("gpu")


def test_name_that_is_not_there_is_an_error_that_helps(node: Node) -> None:
    with pytest.raises(Exception, match=r"no actor is called 'device'; there are .*devices, "):
        node.kill("device")
    with pytest.raises(Exception, match="no claim c is in test-"):
        node.prepare("gpu.example.com", "c")
    with pytest.raises(Exception, match="no method is called 'watch'; there are list, "):
        node.pod_resources.requests("watch")
    with pytest.raises(Exception, match="an object needs apiVersion and kind: here '' and 'Pod'"):
        node.apply({"kind": "Pod", "metadata": {"name": "a"}})


@pytest.mark.parametrize("time", ["first", "second"])
def test_driver_starts_again_while_its_slices_are_there(node: Node, time: str) -> None:
    assert node.driver("gpu.example.com", devices=2).runs, time
