"""A recipe for authors of DRA drivers: `node.driver` runs a simulated one, `node.run("my-driver")` yours."""

from pathlib import Path

from pytest_nodeplane import Node

DRIVER = "gpu.example.com"
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one-gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimName: one-gpu}]
  containers:
    - {name: main, image: any, command: [sleep, infinity], resources: {claims: [{name: gpu}]}}
"""


def cdi_files(node: Node) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in node.plane.layout.cdi.glob("*")}


def test_preparing_a_claim_again_changes_nothing(node: Node) -> None:
    driver = node.driver(DRIVER, devices=2)
    node.apply(CLAIM)
    node.wait("user").running()
    before = cdi_files(node)
    [call] = [call for call in node.calls(DRIVER) if call.method == "NodePrepareResources"]
    assert call.status == "OK", f"NodePrepareResources ended with {call.status}: {call.error}"
    [answer] = call.reply["claims"].values()

    first = node.prepare(DRIVER, "one-gpu")  # as kubelet does when it was killed before it had noted the answer
    second = node.prepare(DRIVER, "one-gpu")

    told = [(device["device_name"], device["cdi_device_ids"]) for device in answer["devices"]]
    again = [(device.device, list(device.cdi)) for device in first]
    assert again == told, "a prepared claim that is prepared again gets another answer"
    assert first == second, "a prepared claim that is prepared again gets another answer"
    assert cdi_files(node) == before, "preparing a claim again changed the CDI files"
    assert [row.device for row in node.claim_devices] == [f"{DRIVER}/{first[0].pool}/{first[0].device}"]
    driver.stop()
    driver = node.driver(DRIVER, devices=2)  # what it prepared before is not only in its memory
    assert node.prepare(DRIVER, "one-gpu") == first, "the driver gives another answer since it restarted"
    assert cdi_files(node) == before, "the driver changed the CDI files since it restarted"
    node.restart_kubelet()
    restarts = node.wait("user").running()["status"]["containerStatuses"][0]["restartCount"]
    assert restarts == 0, "the container was restarted with the kubelet"
    assert driver.runs, "the driver ended when the kubelet restarted"
